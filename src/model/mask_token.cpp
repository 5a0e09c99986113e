#include "model/mask_token.h"

#include "base/error.h"
#include "ckpt/gguf_vocabulary.h"
#include "model/forward.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

namespace dllm::model {
namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kOwnToken = "<|mask|>";
constexpr const char* kUsualNames[] = {kOwnToken, "<|mdm_mask|>", "[MASK]", "<mask>", "<M>"};

std::optional<Bytes> side_file(const Model& model, const std::string& name) {
  for (const auto& [own, content] : model.side_files()) {
    if (own == name) return content;
  }
  return std::nullopt;
}

std::optional<int64_t> id_of(const Json& token) {
  const auto id = token.find("id");
  return id != token.end() && id->is_number_integer() ? std::optional(id->get<int64_t>())
                                                      : std::nullopt;
}

// The vocabulary of a BPE or WordPiece tokenizer is an object, of a Unigram one a list of pairs.
std::optional<int64_t> find_in_vocabulary(const Json& vocabulary, const std::string& text) {
  if (vocabulary.is_object()) {
    const auto found = vocabulary.find(text);
    if (found != vocabulary.end() && found->is_number_integer()) return found->get<int64_t>();
  } else if (vocabulary.is_array()) {
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      const Json& entry = vocabulary[i];
      if (entry.is_array() && !entry.empty() && entry[0] == text) return static_cast<int64_t>(i);
    }
  }
  return std::nullopt;
}

std::optional<int64_t> find_token(const Json& tokenizer, const std::string& text) {
  if (const auto added = tokenizer.find("added_tokens");
      added != tokenizer.end() && added->is_array()) {
    for (const Json& token : *added) {
      if (token.is_object() && token.contains("content") && token["content"] == text)
        return id_of(token);
    }
  }
  if (!tokenizer.contains("model") || !tokenizer["model"].is_object()) return std::nullopt;
  const Json& model = tokenizer["model"];
  return model.contains("vocab") ? find_in_vocabulary(model["vocab"], text) : std::nullopt;
}

// Ids 0 .. count - 1 are in use.
int64_t token_count(const Json& tokenizer) {
  int64_t last = -1;
  if (const auto added = tokenizer.find("added_tokens");
      added != tokenizer.end() && added->is_array()) {
    for (const Json& token : *added)
      last = std::max(last, token.is_object() ? id_of(token).value_or(-1) : -1);
  }
  if (tokenizer.contains("model") && tokenizer["model"].is_object() &&
      tokenizer["model"].contains("vocab")) {
    const Json& vocabulary = tokenizer["model"]["vocab"];
    if (vocabulary.is_array()) return std::max(last + 1, static_cast<int64_t>(vocabulary.size()));
    for (const auto& [text, id] : vocabulary.items()) {
      if (id.is_number_integer()) last = std::max(last, id.get<int64_t>());
    }
  }
  return last + 1;
}

std::optional<int64_t> find_by_text(const Model& model, const std::vector<std::string>& texts,
                                    const ckpt::GgufFile* gguf) {
  if (gguf != nullptr && gguf->has("tokenizer.ggml.tokens")) {
    const std::vector<std::string> tokens = gguf->texts("tokenizer.ggml.tokens");
    for (const std::string& text : texts) {
      const auto found = std::find(tokens.begin(), tokens.end(), text);
      if (found != tokens.end()) return found - tokens.begin();
    }
  }
  const std::optional<Bytes> file = side_file(model, kTokenizer);
  // A tokenizer.json has ten megabytes: it is parsed only when one of the names stands in it.
  if (!file || std::none_of(texts.begin(), texts.end(), [&](const std::string& text) {
        return file->text().find(text) != std::string_view::npos;
      })) {
    return std::nullopt;
  }
  const Json tokenizer = parse_json(file->text(), kTokenizer);
  for (const std::string& text : texts) {
    if (const std::optional<int64_t> id = find_token(tokenizer, text)) return id;
  }
  return std::nullopt;
}

std::optional<int64_t> parse_id(const std::string& text) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(id)
                                                                  : std::nullopt;
}

// Row `id` of a table becomes the mean of the first `count` rows; the table grows when it is
// shorter.
void set_mean_row(ParamStore& params, size_t index, int64_t id, int64_t count) {
  const ParamStore::Physical& entry = params.physical()[index];
  ParamSpec spec = entry.spec;
  const Tensor old = params.widened(index);
  const int64_t width = spec.element[1];
  spec.element = Shape{std::max(spec.element[0], id + 1), width};
  spec.pieces.front().rows = spec.element[0];

  Tensor table(DType::f32, spec.element);
  std::copy(old.as<float>().begin(), old.as<float>().end(), table.mutable_as<float>().begin());
  for (int64_t column = 0; column < width; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < count; ++row)
      sum += old.as<float>()[static_cast<size_t>(row * width + column)];
    table.mutable_as<float>()[static_cast<size_t>(id * width + column)] =
        static_cast<float>(sum / static_cast<double>(count));
  }
  ParamForm form(spec, *entry.format);
  // The form wants the logical tensor: as it stands in the file.
  ParamSpec plain = spec;
  plain.pieces.front().transpose = false;
  form.put(plain, 0, 0, table);
  params.reshape(index, spec, form);
}

Bytes owned(std::string text) {
  const auto holder = std::make_shared<const std::string>(std::move(text));
  return Bytes(holder->data(), holder->size(), holder);
}

// The entry of tokenizer_config.json for the new token.
void name_mask_token(Json& config, int64_t id, const Json& token) {
  config["mask_token"] = kOwnToken;
  if (const auto listed = config.find("added_tokens_decoder");
      listed != config.end() && listed->is_object()) {
    Json entry = token;
    entry.erase("id");
    (*listed)[std::to_string(id)] = entry;
  }
}

Json special_token(int64_t id) {
  return {{"id", id},        {"content", kOwnToken}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false},  {"special", true}};
}

} // namespace

void resolve_mask_token(Model& model, const std::string& wanted, const ckpt::GgufFile* gguf) {
  if (!wanted.empty()) {
    std::optional<int64_t> id = parse_id(wanted);
    if (!id) id = find_by_text(model, {wanted}, gguf);
    if (!id)
      fail_with_hint("give the text of a token or its id", Code::not_found,
                     "no token {} for mask_token", wanted);
    return model.set_mask_token(*id);
  }
  if (model.config().mask_token_id >= 0) return;
  const std::vector<std::string> names(std::begin(kUsualNames), std::end(kUsualNames));
  const std::optional<int64_t> id = find_by_text(model, names, gguf);
  if (id && *id >= 0 && *id < model.config().vocab_size) model.set_mask_token(*id);
}

void Model::set_mask_token(int64_t id) {
  if (id < 0 || id >= config_.vocab_size) {
    fail(Code::out_of_range, "mask token {} is out of the vocabulary of {}", id,
         config_.vocab_size);
  }
  const std::lock_guard lock(words_);
  config_.mask_token_id = id;
}

int64_t Model::ensure_mask_token() {
  if (config_.mask_token_id >= 0) return config_.mask_token_id;
  const std::optional<Bytes> file = side_file(*this, kTokenizer);
  Json tokenizer = file.has_value() ? parse_json(file->text(), kTokenizer) : Json();
  const std::optional<Bytes> config_file =
      file.has_value() ? side_file(*this, kTokenizerConfig) : std::nullopt;
  Json config =
      config_file.has_value() ? parse_json(config_file->text(), kTokenizerConfig) : Json();
  const int64_t used =
      std::min(file.has_value() ? token_count(tokenizer) : config_.vocab_size, config_.vocab_size);
  if (used < 1) fail(Code::failed_precondition, "{} holds no tokens", kTokenizer);

  set_mean_row(params_, params_.index("embedding"), used, used);
  if (!config_.tie_embeddings) set_mean_row(params_, params_.index("head"), used, used);
  {
    const std::lock_guard lock(words_);
    config_.vocab_size = std::max(config_.vocab_size, used + 1);
    config_.mask_token_id = used;
  }
  cache_->clear();
  if (file.has_value()) {
    if (!tokenizer.contains("added_tokens") || !tokenizer["added_tokens"].is_array())
      tokenizer["added_tokens"] = Json::array();
    tokenizer["added_tokens"].push_back(special_token(used));
    set_side_file(kTokenizer, owned(tokenizer.dump(2)));
  }
  if (config.is_object()) {
    name_mask_token(config, used, special_token(used));
    set_side_file(kTokenizerConfig, owned(config.dump(2)));
  }
  return used;
}

} // namespace dllm::model

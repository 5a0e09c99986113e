#include "model/files/save.h"

#include "base/error.h"
#include "base/log.h"
#include "text/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace dllm::model {

namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kUsualNames[] = {text::kMaskToken, "<|mdm_mask|>", "[MASK]", "<mask>", "<M>"};

std::optional<Bytes> side_file(const Model& model, const std::string& name) {
  for (const auto& [own, content] : model.side_files()) {
    if (own == name) return content;
  }
  return std::nullopt;
}

Bytes owned(std::string text) {
  const auto holder = std::make_shared<const std::string>(std::move(text));
  return Bytes(holder->data(), holder->size(), holder);
}

// Sets the end tokens where transformers reads them; other settings stay. When no file lists end
// tokens and there is only one, eos of tokenizer_config.json is enough.
void put_ends(Model& model, const std::vector<int32_t>& ends) {
  Json settings = model.generation();
  if (ends.empty() || (ends.size() == 1 && !settings.contains("eos_token_id"))) return;
  settings["eos_token_id"] = ends;
  model.set_side_file(kGeneration, owned(settings.dump(2) + "\n"));
}

} // namespace

void set_tokenizer(Model& model, const text::Tokenizer& tokenizer) {
  if (tokenizer.size() > model.config().vocab_size) {
    fail(Code::invalid_argument, "the tokenizer has {} tokens, the model's vocabulary has {}",
         tokenizer.size(), model.config().vocab_size);
  }
  const auto put = [&](const char* name, std::string content) {
    model.set_side_file(name, owned(std::move(content)));
  };
  put("tokenizer.json", tokenizer.to_json());
  // Settings of a loaded model, such as a chat template, stay.
  const Model::SideFiles files = model.side_files();
  const auto is_config = [](const auto& file) { return file.first == "tokenizer_config.json"; };
  if (std::none_of(files.begin(), files.end(), is_config))
    put("tokenizer_config.json", tokenizer.config_json());
  // Several named templates stay in tokenizer_config.json.
  if (tokenizer.chat_templates().size() == 1)
    put("chat_template.jinja", tokenizer.chat_templates()[0].text);
  put_ends(model, tokenizer.ends());
}

void set_gguf_tokenizer(Model& model, const Source& source) {
  try {
    set_tokenizer(model, *text::Tokenizer::load(source, Options(text::tokenizer_schema())));
  } catch (const Error& error) {
    log(LogLevel::warn, "{}: the tokenizer is left out: {}", source.describe(), error.text());
  }
}

namespace {

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
  return file ? text::find_token(file->text(), texts) : std::nullopt;
}

std::optional<int64_t> parse_id(const std::string& text) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(id)
                                                                  : std::nullopt;
}

// Returns the mean of the first `count` rows, of shape (1, width).
Tensor mean_row(const Tensor& rows, int64_t count) {
  const int64_t width = rows.shape()[-1];
  const std::span<const float> numbers = rows.as<float>();
  Tensor mean(DType::f32, Shape{1, width});
  for (int64_t column = 0; column < width; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < count; ++row)
      sum += numbers[static_cast<size_t>(row * width + column)];
    mean.mutable_as<float>()[static_cast<size_t>(column)] =
        static_cast<float>(sum / static_cast<double>(count));
  }
  return mean;
}

// Copies rows of stored numbers to row `at` of a larger array of the same form.
void copy_rows(const Tensor& from, int64_t rows, int64_t at, Tensor* to) {
  if (rows == 0) return;
  const int64_t row_bytes = from.byte_size() / rows;
  std::copy_n(from.bytes(), rows * row_bytes, to->mutable_bytes() + at * row_bytes);
}

// Sets row `id` of a table to the mean of the first `count` rows. The table grows when it is
// shorter. Other rows keep their bytes: blocks that are packed again may have other numbers.
void set_mean_row(ParamStore& params, size_t index, int64_t id, int64_t count) {
  const std::vector<ParamStore::Physical> entries = params.entries();
  const ParamStore::Physical& entry = entries[index];
  const auto resized = [&](int64_t rows) {
    ParamSpec spec = entry.spec;
    spec.element = Shape{rows, spec.element[1]};
    spec.pieces.front().rows = rows;
    return spec;
  };
  const int64_t old_rows = entry.spec.element[0];
  const ParamSpec spec = resized(std::max(old_rows, id + 1));
  ParamForm form(spec, *entry.format);
  ParamSpec one = resized(1);
  one.pieces.front().transpose = false; // the mean is in the order of the stored rows
  ParamForm row(one, *entry.format);
  row.put(one, 0, 0, mean_row(params.widened(index), count));
  form.rounding = row.rounding;
  copy_rows(entry.buffer->read(), old_rows, 0, &form.values);
  copy_rows(row.values, 1, id, &form.values);
  if (form.scale.defined()) {
    copy_rows(entries[index + 1].buffer->read(), old_rows, 0, &form.scale);
    copy_rows(row.scale, 1, id, &form.scale);
  }
  params.reshape(index, spec, form);
}

} // namespace

void resolve_mask_token(Model& model, const std::string& wanted, const ckpt::GgufFile* gguf) {
  if (!wanted.empty()) {
    std::optional<int64_t> id = parse_id(wanted);
    if (!id) id = find_by_text(model, {wanted}, gguf);
    if (!id)
      fail_with_hint("give the text of a token or its id", Code::not_found,
                     "there is no token {} for mask_token", wanted);
    return model.set_mask_token(*id);
  }
  if (model.config().mask_token_id >= 0) return;
  const std::vector<std::string> names(std::begin(kUsualNames), std::end(kUsualNames));
  const std::optional<int64_t> id = find_by_text(model, names, gguf);
  if (id && *id >= 0 && *id < model.config().vocab_size) model.set_mask_token(*id);
}

Json Model::generation() const {
  const std::optional<Bytes> file = side_file(*this, kGeneration);
  Json settings = file ? parse_json(file->text(), kGeneration) : Json::object();
  if (!settings.is_object()) fail(Code::data_loss, "{} must hold an object", kGeneration);
  return settings;
}

std::shared_ptr<const text::TokenFacts> Model::token_facts() const {
  const std::lock_guard lock(words_);
  if (token_facts_ != nullptr) return token_facts_;
  MemorySource files;
  for (const auto& [name, content] : side_files_)
    files.add(name, content.data(), static_cast<size_t>(content.size()), false);
  const std::string& config = parts_.base().config.source;
  if (!config.empty()) files.add("config.json", config.data(), config.size(), false);
  token_facts_ = std::make_shared<const text::TokenFacts>(text::read_token_facts(files));
  return token_facts_;
}

void Model::set_mask_token(int64_t id) {
  ModelConfig& config = parts_.base().config;
  if (id < 0 || id >= config.vocab_size) {
    fail(Code::out_of_range, "mask token {} is out of the vocabulary of {}", id, config.vocab_size);
  }
  const std::lock_guard lock(words_);
  config.mask_token_id = id;
}

int64_t Model::ensure_mask_token() {
  ModelConfig& config = parts_.base().config;
  if (config.mask_token_id >= 0) return config.mask_token_id;
  const std::optional<Bytes> file = side_file(*this, kTokenizer);
  const std::optional<Bytes> config_file =
      file.has_value() ? side_file(*this, kTokenizerConfig) : std::nullopt;
  const int64_t used = std::min(
      file.has_value() ? text::count_tokens(file->text()) : config.vocab_size, config.vocab_size);
  if (used < 1) fail(Code::failed_precondition, "{} holds no tokens", kTokenizer);
  // Calls that can fail come before any change.
  std::optional<std::string> new_tokenizer, new_config;
  if (file) new_tokenizer = text::add_mask_token(file->text(), used);
  if (config_file) new_config = text::name_mask_token(config_file->text(), used);

  std::optional<PartOrigin> origin = origin_of(kBasePart);
  set_mean_row(params_, params_.index("embedding"), used, used);
  if (!config.tie_embeddings) set_mean_row(params_, params_.index("head"), used, used);
  for (size_t i = 0; i < params_.physical().size(); ++i) { // copies of adapters
    const ParamSpec& spec = params_.physical()[i].spec;
    const bool is_table = spec.name == "embedding" || spec.name == "head";
    if (spec.role == ParamRole::adapter && is_table) set_mean_row(params_, i, used, used);
  }
  {
    const std::lock_guard lock(words_);
    config.vocab_size = std::max(config.vocab_size, used + 1);
    config.mask_token_id = used;
  }
  if (origin) {
    origin->has_new_mask = true;
    set_origin_of(kBasePart, *origin);
  }
  forward_cache_.clear();
  if (new_tokenizer) set_side_file(kTokenizer, owned(std::move(*new_tokenizer)));
  if (new_config) set_side_file(kTokenizerConfig, owned(std::move(*new_config)));
  return used;
}

} // namespace dllm::model

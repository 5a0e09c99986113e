// This file loads and saves a Tokenizer: it finds the files and the tokens with a role.
#include "base/ascii.h"
#include "base/error.h"
#include "base/files.h"
#include "ckpt/gguf/gguf_parts.h"
#include "ckpt/model_place.h"
#include "text/tokenizer.h"
#include "text/tokenizer/files/post_template.h"
#include "text/tokenizer/files/special_files.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <span>

namespace dllm::text {

namespace {

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kConfigJson = "tokenizer_config.json";
constexpr const char* kChatTemplate = "chat_template.jinja";
constexpr std::string_view kGgufEnding = ".gguf";

// Usual spellings of tokens, which are used when no option and no file names a token.
constexpr const char* kUsualBegins[] = {"<|bos|>", "<s>", "<|begin_of_text|>", "<bos>", "[CLS]"};
constexpr const char* kUsualPads[] = {"<|pad|>", "<pad>", "[PAD]"};
constexpr const char* kUsualMasks[] = {"<|mask|>", "<mask>", "[MASK]", "<|mdm_mask|>", "<|MASK|>"};

struct Role {
  const char* option; // key of the tokenizer schema
  const char* config; // key of tokenizer_config.json
  int32_t SpecialIds::*id;
  std::span<const char* const> names;
};

const Role kRoles[] = {{"bos", "bos_token", &SpecialIds::bos, kUsualBegins},
                       {"eos", "eos_token", &SpecialIds::eos, kUsualEnds},
                       {"pad", "pad_token", &SpecialIds::pad, kUsualPads},
                       {"mask", "mask_token", &SpecialIds::mask, kUsualMasks}};

// Reads "chat_template" of tokenizer_config.json, which is a text or a list of texts with names.
std::vector<ChatSource> read_chat_templates(const TreeJson& config, const std::string& where) {
  const TreeJson* value = find_member(config, "chat_template");
  if (value == nullptr) return {};
  if (value->is_string()) return {{"default", value->get<std::string>()}};
  if (!value->is_array()) {
    fail(Code::data_loss, "{}: chat_template must be a text or a list, found {}", where,
         value->type_name());
  }
  std::vector<ChatSource> sources;
  for (const TreeJson& item : *value) {
    const std::string inside = fmt::format("{}: chat_template[{}]", where, sources.size());
    sources.push_back(
        {string_member(item, "name", inside), string_member(item, "template", inside)});
  }
  return sources;
}

// The beginning of to_json(); no other program writes these members in one line.
constexpr std::string_view kOwnBegin =
    R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)";

bool is_own_tokenizer(const std::string& path) {
  const InputFile file(path);
  if (file.size() < static_cast<int64_t>(kOwnBegin.size())) return false;
  return file.read(0, static_cast<int64_t>(kOwnBegin.size())).text() == kOwnBegin;
}

// config_json() has only roles and templates.
bool is_own_config(const std::string& path) {
  const TreeJson config = parse_tree(read_text(path), path);
  if (!config.is_object() || !config.contains("tokenizer_class")) return false;
  for (const auto& [key, value] : config.items()) {
    const bool is_role =
        std::any_of(std::begin(kRoles), std::end(kRoles),
                    [&, &name = key](const Role& role) { return name == role.config; });
    if (!is_role && key != "tokenizer_class" && key != "chat_template") return false;
  }
  return true;
}

template <class IsOwn> void check_replaceable(const std::string& path, IsOwn is_own) {
  if (!file_exists(path) && !is_link(path)) return;
  bool own = false;
  try {
    own = !is_link(path) && is_own(path);
  } catch (const Error&) {
    own = false; // not even a file of JSON
  }
  if (own) return;
  fail_with_hint("choose another path, or move it away", Code::already_exists,
                 "{} is not replaced: no save of a tokenizer wrote it", path);
}

std::string member_of(const Source& source, const char* file, const char* key) {
  if (!source.has(file)) return "";
  const std::string where = source.describe() + "/" + file;
  return string_member(parse_tree(source.open(file).text(), where), key, where, "");
}

bool names_one_of(std::string text, std::initializer_list<const char*> words) {
  text = lower_case(std::move(text));
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

// Returns the scheme in which the tokenizer of vocab.json and merges.txt cuts words. Its class
// names the scheme, else the family of the model next to it.
std::string scheme_of(const Source& source) {
  const std::string own = member_of(source, kConfigJson, "tokenizer_class");
  const std::string family = member_of(source, "config.json", "model_type");
  for (const std::string& name : {own, family}) {
    if (names_one_of(name, {"qwen", "dream", "diffucoder", "sdar", "fast_dllm", "rnd1"}))
      return "qwen2";
    if (names_one_of(name, {"gpt2"})) return "gpt2";
  }
  if (own.empty() && family.empty()) return "gpt2";
  fail_with_hint("save it as tokenizer.json", Code::unimplemented,
                 "{}: vocab.json and merges.txt do not describe a {} (model_type {}) completely",
                 source.describe(), own.empty() ? "tokenizer without a class" : own,
                 family.empty() ? "unknown" : family);
}

// Applies add_prefix_space of tokenizer_config.json: every word that the pre-tokenizer passes to
// its last step begins with a space.
void read_prefix_space(const Source& source, TreeJson& pre_tokenizer) {
  if (!source.has(kConfigJson)) return;
  const std::string where = source.describe() + "/" + kConfigJson;
  const TreeJson config = parse_tree(source.open(kConfigJson).text(), where);
  if (!bool_member(config, "add_prefix_space", where, false)) return;
  const bool has_steps = pre_tokenizer.contains("pretokenizers");
  TreeJson& last = has_steps ? pre_tokenizer["pretokenizers"].back() : pre_tokenizer;
  last["add_prefix_space"] = true;
}

} // namespace

std::shared_ptr<Tokenizer> Tokenizer::load(const std::string& path, const Options& options) {
  std::shared_ptr<Tokenizer> made;
  ckpt::read_latest(path, [&] {
    const std::string from = ckpt::tokenizer_folder(path);
    if (!is_directory(from) && !file_exists(from))
      fail(Code::not_found, "there is no file or folder {}", from);
    if (is_directory(from) || from.ends_with(kGgufEnding)) {
      made = load(*ckpt::open_model_source(from), options);
      return;
    }
    // A file of any name; tokenizer_config.json in the same folder is read too.
    TokenizerParts parts = read_tokenizer_json(read_bytes(from).text(), from);
    const std::string folder = parent_path(from);
    made = finish(std::move(parts), *open_source(folder.empty() ? "." : folder), options);
  });
  return made;
}

std::shared_ptr<Tokenizer> Tokenizer::load(const Source& source, const Options& options) {
  std::string file = kTokenizerJson;
  const std::vector<std::string> names = source.names();
  const bool has_files = source.has("vocab.json") && source.has("merges.txt");
  const bool is_folder_of_files = source.has("config.json") && has_files;
  if (!source.has(file) && !is_folder_of_files && ckpt::holds_gguf(source)) {
    const std::string first = ckpt::find_gguf(source).files.front(); // it has the metadata of all
    return from_gguf(ckpt::read_gguf_vocabulary(ckpt::GgufFile(source.content(first), first)),
                     options);
  }
  if (!source.has(file) && names.size() == 1 && names[0].ends_with(".json")) file = names[0];
  TokenizerParts parts;
  if (source.has(file)) {
    parts = read_tokenizer_json(source.open(file).text(), source.describe() + "/" + file);
  } else if (has_files) {
    parts =
        read_vocab_and_merges(source.open("vocab.json").text(), source.open("merges.txt").text(),
                              source.describe(), scheme_of(source));
    read_prefix_space(source, parts.pre_tokenizer);
  } else {
    fail_with_hint("give a folder with tokenizer.json, or with vocab.json and merges.txt",
                   Code::not_found, "{} holds no tokenizer.json", source.describe());
  }
  return finish(std::move(parts), source, options);
}

std::shared_ptr<Tokenizer> Tokenizer::finish(TokenizerParts parts, const Source& source,
                                             const Options& options) {
  add_special_files(read_special_files(source), parts.name, parts);
  if (source.has(kConfigJson)) {
    const std::string where = source.describe() + "/" + kConfigJson;
    const TreeJson config = parse_tree(source.open(kConfigJson).text(), where);
    parts.chat_templates = read_chat_templates(config, where);
    read_template_flags(config, where, parts);
  }
  // The newer of the two places has priority, as in transformers.
  if (source.has(kChatTemplate)) {
    parts.chat_templates = {{"default", std::string(source.open(kChatTemplate).text())}};
  }
  return std::make_shared<Tokenizer>(std::move(parts), options);
}

std::shared_ptr<Tokenizer> Tokenizer::from_gguf(const ckpt::GgufVocabulary& vocabulary,
                                                const Options& options) {
  return std::make_shared<Tokenizer>(read_gguf_tokenizer(vocabulary), options);
}

void Tokenizer::choose_special(const Options& options) {
  for (const Role& role : kRoles) { // numbers of other files may be beyond this vocabulary
    if (token(special_.*role.id).empty()) special_.*role.id = -1;
  }
  for (const Role& role : kRoles) {
    const std::string& wanted = options.str(role.option);
    if (!wanted.empty()) {
      const auto found = find(wanted);
      if (!found) {
        fail_with_hint(fmt::format("give {} in add_tokens to add it", wanted), Code::not_found,
                       "{} has no token {} for {}", name_, wanted, role.option);
      }
      special_.*role.id = *found;
    }
    for (const char* name : role.names) {
      if (special_.*role.id >= 0) break;
      if (const AddedToken* token = added_.find(name)) special_.*role.id = token->id;
    }
  }
}

void Tokenizer::choose_ends(const TokenizerParts& parts) {
  std::set<int32_t> ends;
  if (special_.eos >= 0) ends.insert(special_.eos);
  for (const int64_t id : parts.ends) {
    if (id < size_ && !token(static_cast<int32_t>(id)).empty())
      ends.insert(static_cast<int32_t>(id));
  }
  for (const std::string& text : parts.end_names) {
    if (const auto id = find(text)) ends.insert(*id);
  }
  ends_.assign(ends.begin(), ends.end());
}

int32_t Tokenizer::id_of_role(std::string_view name) const {
  const auto role = std::find_if(std::begin(kRoles), std::end(kRoles),
                                 [&](const Role& r) { return name == r.option; });
  if (role == std::end(kRoles)) return id(name);
  if (special_.*role->id >= 0) return special_.*role->id;
  fail_with_hint("name it with an option of kind tokenizer, or look the token up by its own text",
                 Code::not_found, "{} has no {} token", name_, name);
}

std::string Tokenizer::to_json() const {
  std::string added;
  for (const auto& [id, token] : added_.all()) {
    added += fmt::format(
        R"({}{{"id":{},"content":{},"single_word":{},"lstrip":{},"rstrip":{},"normalized":{},"special":{}}})",
        added.empty() ? "" : ",", id, json_string(token.content), token.single_word, token.lstrip,
        token.rstrip, token.normalized, token.special);
  }
  return fmt::format(
      R"({}{}],"normalizer":{},"pre_tokenizer":{},"post_processor":{},"decoder":{},"model":{}}})",
      kOwnBegin, added, normalizer_json_.dump(), pre_tokenizer_json_.dump(),
      post_processor_json_.dump(), decoder_json_.dump(), model_->to_json());
}

std::string Tokenizer::config_json() const {
  TreeJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const Role& role : kRoles) {
    if (special_.*role.id >= 0) config[role.config] = std::string(token(special_.*role.id));
  }
  if (chat_templates_.size() == 1) {
    config["chat_template"] = chat_templates_[0].text;
  } else if (!chat_templates_.empty()) {
    for (const ChatSource& chat : chat_templates_) {
      config["chat_template"].push_back({{"name", chat.name}, {"template", chat.text}});
    }
  }
  return config.dump(2, ' ', false, TreeJson::error_handler_t::replace);
}

void Tokenizer::save(const std::string& path) const {
  if (!is_directory(path)) {
    check_replaceable(path, is_own_tokenizer);
    return write_file_atomic(path, to_json());
  }
  const std::string json = join_path(path, kTokenizerJson), config = join_path(path, kConfigJson);
  check_replaceable(json, is_own_tokenizer);
  check_replaceable(config, is_own_config);
  write_file_atomic(json, to_json());
  write_file_atomic(config, config_json());
}

} // namespace dllm::text

#include "text/tokenizer/files/special_files.h"

#include "base/error.h"
#include "base/log.h"
#include "text/json_reader.h"
#include "text/tokenizer/files/post_template.h"
#include "text/unicode.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <set>

namespace dllm::text {
namespace {

TreeJson read_object(const Source& source, const char* name) {
  if (!source.has(name)) return TreeJson::object();
  const std::string where = source.describe() + "/" + name;
  TreeJson object = parse_tree(source.open(name).text(), where);
  if (!object.is_object())
    fail(Code::data_loss, "{} must hold an object, found {}", where, object.type_name());
  return object;
}

struct RoleKeys {
  const char* text;   // of tokenizer_config.json and special_tokens_map.json
  const char* number; // of generation_config.json and config.json
  int32_t SpecialIds::*id;
};
constexpr RoleKeys kRoleKeys[] = {{"bos_token", "bos_token_id", &SpecialIds::bos},
                                  {"eos_token", "eos_token_id", &SpecialIds::eos},
                                  {"pad_token", "pad_token_id", &SpecialIds::pad},
                                  {"mask_token", "mask_token_id", &SpecialIds::mask}};
// Tokens that are special in transformers and have no role here. eot and eom end an answer
// (Tokenizer::ends).
constexpr const char* kOtherKeys[] = {"eot_token", "eom_token", "unk_token", "sep_token",
                                      "cls_token"};

void read_names(const TreeJson& object, SpecialFiles& files) {
  const auto add = [&](const char* key, const TreeJson* value) {
    if (const std::string text = config_token(value); !text.empty())
      files.named.emplace_back(key, text);
  };
  for (const RoleKeys& role : kRoleKeys) add(role.text, find_member(object, role.text));
  for (const char* key : kOtherKeys) add(key, find_member(object, key));
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const TreeJson* list = find_member(object, key);
    if (list == nullptr || !(list->is_array() || list->is_object())) continue;
    for (const TreeJson& item : *list) add(key, &item);
  }
}

int64_t number_of(const TreeJson& value) {
  const bool fits = value.is_number_integer() && value >= 0 && value <= INT32_MAX;
  return fits ? value.get<int64_t>() : -1;
}

// eos_token_id is a number or a list of numbers.
void read_numbers(const TreeJson& object, SpecialFiles& files) {
  for (const RoleKeys& role : kRoleKeys) {
    const TreeJson* value = find_member(object, role.number);
    if (value == nullptr) continue;
    const TreeJson list = value->is_array() ? *value : TreeJson::array({*value});
    for (const TreeJson& item : list) {
      const int64_t id = number_of(item);
      if (id < 0) continue;
      if (files.ids.*role.id < 0) files.ids.*role.id = static_cast<int32_t>(id);
      const bool is_new = std::find(files.ends.begin(), files.ends.end(), id) == files.ends.end();
      if (role.id == &SpecialIds::eos && is_new) files.ends.push_back(id);
    }
  }
}

void read_decoder(const TreeJson& config, const std::string& where, SpecialFiles& files) {
  const TreeJson* listed = find_member(config, "added_tokens_decoder");
  if (listed == nullptr) return;
  if (!listed->is_object())
    fail(Code::data_loss, "{}: added_tokens_decoder must be an object, found {}", where,
         listed->type_name());
  for (const auto& [key, value] : listed->items()) {
    AddedToken token;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    token.content = config_token(&value);
    if (error != std::errc() || end != key.data() + key.size() || token.content.empty())
      fail(Code::data_loss, "{}: added_tokens_decoder: {} is not the id of a token", where,
           replace_invalid(key.substr(0, 40)));
    const std::string inside = where + ": added_tokens_decoder." + key;
    token.special = value.is_object() && bool_member(value, "special", inside, false);
    if (value.is_object()) {
      token.single_word = bool_member(value, "single_word", inside, false);
      token.lstrip = bool_member(value, "lstrip", inside, false);
      token.rstrip = bool_member(value, "rstrip", inside, false);
      token.normalized = bool_member(value, "normalized", inside, !token.special);
    }
    files.added.push_back(std::move(token));
  }
}

// Reads {"token": id}, an older form of added_tokens_decoder. Tokens of the newer form have
// priority.
void read_added_tokens(const TreeJson& object, SpecialFiles& files) {
  for (const auto& [text, id] : object.items()) {
    const bool known = std::any_of(files.added.begin(), files.added.end(),
                                   [&, &name = text](const auto& t) { return t.content == name; });
    const bool special =
        std::any_of(files.named.begin(), files.named.end(),
                    [&, &name = text](const auto& entry) { return entry.second == name; });
    if (known || text.empty() || number_of(id) < 0) continue;
    AddedToken token{.id = static_cast<int32_t>(number_of(id)), .content = text};
    token.special = special;
    token.normalized = !special;
    files.added.push_back(std::move(token));
  }
}

AddedToken* find_added(TokenizerParts& parts, const std::string& text) {
  const auto found = std::find_if(parts.added.begin(), parts.added.end(),
                                  [&](const AddedToken& token) { return token.content == text; });
  return found == parts.added.end() ? nullptr : &*found;
}

std::string shown(const std::string& text) {
  return replace_invalid(std::string_view(text).substr(0, 40));
}

// Makes a named token of the vocabulary an added token, so that it is found whole in a text.
void mark_special(const std::string& key, const std::string& text, const std::string& where,
                  TokenizerParts& parts) {
  if (AddedToken* token = find_added(parts, text)) {
    token->special = true;
    return;
  }
  const int32_t id = parts.vocabulary->find(text);
  if (id >= 0) {
    parts.added.push_back({.id = id, .content = text, .special = true});
    return;
  }
  log(LogLevel::warn, "{}: {} is {}, but no file gives this token an id: it is left out", where,
      key, shown(text));
}

} // namespace

SpecialFiles read_special_files(const Source& source) {
  SpecialFiles files;
  const TreeJson config = read_object(source, "tokenizer_config.json");
  read_names(read_object(source, "special_tokens_map.json"), files);
  read_names(config, files);
  read_decoder(config, source.describe() + "/tokenizer_config.json", files);
  read_added_tokens(read_object(source, "added_tokens.json"), files);
  std::sort(files.added.begin(), files.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  read_numbers(read_object(source, "generation_config.json"), files);
  const TreeJson model = read_object(source, "config.json");
  read_numbers(model, files);
  if (const TreeJson* text = find_member(model, "text_config"); text != nullptr)
    read_numbers(*text, files);
  return files;
}

void add_special_files(const SpecialFiles& files, const std::string& where, TokenizerParts& parts) {
  for (const AddedToken& token : files.added) {
    const AddedToken* known = find_added(parts, token.content);
    const int32_t id = known != nullptr ? known->id : parts.vocabulary->find(token.content);
    if (id >= 0 && id != token.id) {
      log(LogLevel::warn, "{}: {} is token {} of the vocabulary, another file says {}", where,
          shown(token.content), id, token.id);
    }
    if (known != nullptr) continue;
    parts.added.push_back(token);
    if (id >= 0) parts.added.back().id = id;
  }
  std::set<std::string> reported;
  for (const auto& [key, text] : files.named) {
    if (reported.insert(text).second) mark_special(key, text, where, parts);
  }
  for (const RoleKeys& role : kRoleKeys) {
    parts.special.*role.id = std::max(parts.special.*role.id, files.ids.*role.id);
    for (const auto& [key, text] : files.named) {
      if (key == role.text) parts.role_names.emplace_back(role.id, text);
    }
  }
  for (const auto& [key, text] : files.named) {
    if (key == "eot_token" || key == "eom_token") parts.end_names.push_back(text);
  }
  parts.ends.insert(parts.ends.end(), files.ends.begin(), files.ends.end());
}

} // namespace dllm::text

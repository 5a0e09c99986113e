#include "model/adapters/adapter_targets.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace dllm::model {
namespace {

constexpr const char* kAllLinear = "all-linear";

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_plain_word(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

// Returns the words of a list, or the one word; none when the key is absent or null. Fails for any
// other value.
std::vector<std::string> word_list(const ConfigReader& reader, const char* key) {
  if (!reader.has(key)) return {};
  const Json& value = reader.object().at(key);
  if (value.is_string()) return {value.get<std::string>()};
  const bool fits = value.is_array() &&
                    std::ranges::all_of(value, [](const Json& item) { return item.is_string(); });
  if (!fits) reader.bad(key, "a list of words, or one word");
  return value.get<std::vector<std::string>>();
}

// Returns the number of a layer; -1 for a text that is not one.
int64_t layer_number(std::string_view text) {
  int64_t number = -1;
  if (!is_number(text)) return -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number >= 0 && number < kMaxLayers ? number : -1;
}

// Adds the layers of "3" or "0-11".
void add_layers(std::string_view text, std::set<int64_t>& layers) {
  const size_t dash = text.find('-');
  const int64_t first = layer_number(text.substr(0, dash));
  const int64_t last = dash == std::string_view::npos ? first : layer_number(text.substr(dash + 1));
  if (first < 0 || last < first) {
    fail_with_hint("write numbers and ranges, as 0-11,15", Code::invalid_argument,
                   "\"{}\" is neither a layer nor a range of layers", text);
  }
  for (int64_t layer = first; layer <= last; ++layer) layers.insert(layer);
}

// Returns true for a matrix that all-linear includes. Names of routers and gates differ from base
// to base.
bool is_linear(const ParamSpec& spec, const std::string& module) {
  return spec.role == ParamRole::weight && spec.layers > 0 && spec.element.rank() == 2 &&
         spec.pieces.size() == 1 && !module.ends_with(".gate") && !module.ends_with("_gate");
}

// Returns true when the word is the name that dllm gives a matrix.
bool is_own_name(std::string_view word, std::string_view own) {
  return word == own || (word == "o" && own == "out");
}

} // namespace

AdapterTargets::AdapterTargets(std::initializer_list<std::string> words) {
  take({words});
}

AdapterTargets::AdapterTargets(const std::vector<std::string>& words) {
  take(words);
}

AdapterTargets::AdapterTargets(const ConfigReader& reader) {
  words_ = words_of(reader, "target_modules");
  excluded_ = words_of(reader, "exclude_modules");
  is_all_linear_ = words_.pattern && words_.list[0] == kAllLinear;
  if (is_all_linear_) words_ = {};
  read_layers(reader);
}

AdapterTargets::AdapterTargets(const Options& options) : is_checked_(true) {
  take(options.list("targets"));
  excluded_.list = options.list("exclude");
  for (const std::string& range : options.list("layers")) {
    if (!layers_) layers_.emplace();
    add_layers(range, *layers_);
  }
}

void AdapterTargets::take(const std::vector<std::string>& words) {
  words_.list = words;
  is_all_linear_ = std::erase(words_.list, kAllLinear) > 0 || words.empty();
}

AdapterTargets::Words AdapterTargets::words_of(const ConfigReader& reader, const char* key) {
  Words made;
  made.list = word_list(reader, key);
  if (reader.has(key) && reader.object().at(key).is_string())
    made.pattern.emplace(fmt::format("^(?:{})\\z", made.list[0]), reader.file() + ": " + key);
  return made;
}

void AdapterTargets::read_layers(const ConfigReader& reader) {
  constexpr const char *kLayers = "layers_to_transform", *kPattern = "layers_pattern";
  layer_words_ = word_list(reader, kPattern);
  std::erase(layer_words_, "");
  if (!std::ranges::all_of(layer_words_, is_plain_word))
    fail_with_hint("merge the adapter in PEFT (merge_and_unload), save the model and load that one",
                   Code::unimplemented, "{}: {} = {} is not a plain word", reader.file(), kPattern,
                   shown_value(reader.object().at(kPattern)));
  if (!reader.has(kLayers)) return;
  const Json& value = reader.object().at(kLayers);
  if (value.is_array() && value.empty()) return;
  const Json list = value.is_array() ? value : Json::array({value});
  layers_.emplace();
  for (const Json& item : list) {
    const bool fits = item.is_number_integer() && item >= 0 && item < kMaxLayers;
    if (!fits) reader.bad(kLayers, "a list of layers, or one layer");
    layers_->insert(item.get<int64_t>());
  }
}

bool AdapterTargets::Words::has(const std::string& module) const {
  if (pattern) {
    text::Regex::Search search(*pattern, module);
    size_t begin, end;
    return search.next(begin, end);
  }
  return std::ranges::any_of(list, [&](const std::string& word) {
    if (word.find('*') != std::string::npos)
      return name_matches(word, module) || name_matches(word, module + ".weight");
    return module == word || module.ends_with("." + word);
  });
}

// The layer is the last number after "<anything>.<word>.", where <word> is one of layers_pattern.
bool AdapterTargets::has_layer(const std::string& module) const {
  if (!layers_) return true;
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= module.size();) {
    const size_t end = std::min(module.find('.', begin), module.size());
    parts.push_back(module.substr(begin, end - begin));
    begin = end + 1;
  }
  for (size_t i = parts.size(); i-- > 0;) {
    if (i < 2 || i + 1 == parts.size() || !is_number(parts[i])) continue;
    if (layer_words_.empty() || std::ranges::find(layer_words_, parts[i - 1]) != layer_words_.end())
      return parts[i].size() < 10 && layers_->contains(std::stoll(parts[i]));
  }
  return false;
}

void AdapterTargets::check(const std::vector<Module>& modules, int64_t layers,
                           const std::string& hint) const {
  if (!is_checked_) return;
  const auto check_words = [&](const char* option, const Words& words) {
    for (const std::string& word : words.list) {
      const Words one{{word}, {}};
      const bool is_used = std::ranges::any_of(modules, [&](const Module& module) {
        return one.has(module.name) || is_own_name(word, module.own);
      });
      if (is_used) continue;
      fail_with_hint(hint, Code::not_found, "{} \"{}\" names no matrix of this model", option,
                     word);
    }
  };
  check_words("targets", words_);
  check_words("exclude", excluded_);
  if (layers_ && *layers_->rbegin() >= layers) {
    fail(Code::invalid_argument, "layers has {}, and the model has layers 0 to {}",
         *layers_->rbegin(), layers - 1);
  }
}

bool AdapterTargets::is_chosen(const std::string& module, std::string_view own) const {
  const auto is_own = [&](const Words& words) {
    return !words.pattern && std::ranges::any_of(words.list, [&](const std::string& word) {
      return is_own_name(word, own);
    });
  };
  if (excluded_.has(module) || is_own(excluded_) || !has_layer(module)) return false;
  return !words_.given() || words_.has(module) || is_own(words_);
}

bool AdapterTargets::has(const std::string& module) const {
  return is_chosen(module, "");
}

std::string_view own_name(const ParamSpec& spec) {
  const size_t dot = spec.use.rfind('.');
  return std::string_view(spec.use).substr(dot == std::string::npos ? 0 : dot + 1);
}

bool AdapterTargets::has(const ParamSpec& spec, const std::string& module) const {
  const std::string_view own = own_name(spec);
  if (!is_chosen(module, own)) return false;
  const bool by_word = words_.given() && !is_all_linear_;
  return by_word || is_linear(spec, module);
}

std::string module_of_weight(const std::string& weight) {
  return weight.substr(0, weight.rfind(".weight"));
}

} // namespace dllm::model

#include "model/adapters/adapter_config.h"

#include "base/error.h"
#include "base/log.h"
#include "model/config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

using enum AdapterKeyUse;

// The keys of PeftConfigMixin, PeftConfig and LoraConfig of PEFT 0.21.2, in their order.
constexpr AdapterKey kKeys[] = {
    {"task_type", harmless},
    {"peft_type", used},
    {"auto_mapping", harmless},
    {"peft_version", harmless},
    {"base_model_name_or_path", harmless},
    {"revision", harmless},
    {"inference_mode", harmless},
    {"r", used},
    {"target_modules", used},
    {"exclude_modules", used},
    {"lora_alpha", used},
    {"lora_dropout", harmless}, // of training
    // Storage of the base's matrix. PEFT sets it from the class of the base.
    {"fan_in_fan_out", harmless},
    {"bias", used},
    {"use_rslora", used},
    {"modules_to_save", off},
    {"init_lora_weights", used},
    {"layers_to_transform", used},
    {"layers_pattern", used},
    {"rank_pattern", off},
    {"alpha_pattern", off},
    {"megatron_config", off},
    {"megatron_core", harmless}, // of megatron_config
    {"trainable_token_indices", off},
    {"loftq_config", harmless},   // of a value of init_lora_weights
    {"eva_config", harmless},     // the same
    {"corda_config", harmless},   // the same
    {"lora_ga_config", harmless}, // the same
    {"use_dora", off},
    {"velora_config", harmless}, // what training keeps for the gradient
    {"alora_invocation_tokens", off},
    {"use_qalora", off},
    {"qalora_group_size", harmless}, // of use_qalora
    {"monteclora_config", off},
    {"layer_replication", off},
    {"runtime_config", harmless}, // where memory lies
    {"lora_bias", off},
    {"target_parameters", off},
    {"use_bdlora", off},
    {"arrow_config", off},
    {"kasa_config", off},
    {"ensure_weight_tying", harmless}, // of modules_to_save and trainable_token_indices
};

constexpr int64_t kMostRank = 1 << 16;
constexpr const char* kMergeHint =
    "merge the adapter in PEFT (merge_and_unload), save the model and load that one";

bool is_off(const Json& value) {
  return value.is_null() || value == false || (!value.is_primitive() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

// Checks a key of a later version of PEFT. A flag or an object may change numbers and fails. Other
// values are ignored with a warning.
void check_unknown(const std::string& key, const Json& value, const std::string& file) {
  if (is_off(value)) return;
  const std::string shown = shown_value(value);
  if (value.is_boolean() || !value.is_primitive()) {
    fail_with_hint(kMergeHint, Code::unimplemented,
                   "{}: {} = {} is a setting of a later PEFT and may change the numbers", file,
                   key.substr(0, 60), shown);
  }
  log(LogLevel::warn, "{}: {} = {} is a setting of a later PEFT: it is ignored", file,
      key.substr(0, 60), shown);
}

void check_keys(const Json& json, const std::string& file) {
  for (const auto& [key, value] : json.items()) {
    const auto* known = std::ranges::find(kKeys, key, &AdapterKey::name);
    if (known == std::end(kKeys)) {
      check_unknown(key, value, file);
    } else if (known->use == off && !is_off(value)) {
      fail_with_hint(kMergeHint, Code::unimplemented, "{}: {} = {} is not supported", file, key,
                     shown_value(value));
    }
  }
}

// Fails where the first values were taken out of the base. Such an adapter belongs to another base
// than the published one.
void check_start(const ConfigReader& reader) {
  constexpr const char* kKey = "init_lora_weights";
  constexpr std::string_view kOfTheBase[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
  constexpr std::string_view kApart[] = {"gaussian", "eva", "orthogonal", "mica", "true", "false"};
  if (!reader.has(kKey) || reader.object().at(kKey).is_boolean()) return;
  std::string word = reader.text(kKey, "");
  std::ranges::transform(word, word.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (std::ranges::find(kApart, word) != std::end(kApart)) return;
  const bool of_base = std::ranges::any_of(
      kOfTheBase, [&](std::string_view start) { return word.starts_with(start); });
  fail_with_hint("save it in PEFT with path_initial_model_for_weight_conversion, which writes an "
                 "adapter of the base as published",
                 Code::unimplemented, "{}: {} = {} {}", reader.file(), kKey,
                 shown_value(reader.object().at(kKey)),
                 of_base ? "means that the first values of the adapter changed its base"
                         : "is a way to start of a later PEFT and may have changed the base");
}

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

} // namespace

std::span<const AdapterKey> adapter_keys() {
  return kKeys;
}

bool AdapterConfig::Words::has(const std::string& module) const {
  if (pattern) {
    text::Regex::Search search(*pattern, module);
    size_t begin, end;
    return search.next(begin, end);
  }
  return std::ranges::any_of(list, [&](const std::string& word) {
    return module == word || module.ends_with("." + word);
  });
}

AdapterConfig::Words AdapterConfig::words(const ConfigReader& reader, const char* key) {
  Words made;
  made.list = word_list(reader, key);
  if (reader.has(key) && reader.object().at(key).is_string())
    made.pattern.emplace(fmt::format("^(?:{})\\z", made.list[0]), reader.file() + ": " + key);
  return made;
}

void AdapterConfig::read_layers(const ConfigReader& reader) {
  constexpr const char *kLayers = "layers_to_transform", *kPattern = "layers_pattern";
  layer_words_ = word_list(reader, kPattern);
  std::erase(layer_words_, "");
  if (!std::ranges::all_of(layer_words_, is_plain_word))
    fail_with_hint(kMergeHint, Code::unimplemented, "{}: {} = {} is not a plain word",
                   reader.file(), kPattern, shown_value(reader.object().at(kPattern)));
  if (!reader.has(kLayers) || is_off(reader.object().at(kLayers))) return;
  const Json& value = reader.object().at(kLayers);
  const Json list = value.is_array() ? value : Json::array({value});
  layers_.emplace();
  for (const Json& item : list) {
    const bool fits = item.is_number_integer() && item >= 0 && item < kMaxLayers;
    if (!fits) reader.bad(kLayers, "a list of layers, or one layer");
    layers_->insert(item.get<int64_t>());
  }
}

AdapterConfig::AdapterConfig(const Json& json, const std::string& file) {
  const ConfigReader reader(json, file);
  reader.require_text("peft_type", {"LORA"});
  check_keys(json, file);
  reader.require_text("bias", {"none"});
  check_start(reader);
  rank_ = reader.integer("r", 1, kMostRank, 8);
  alpha_ = reader.number("lora_alpha", 0, 1e9, 8);
  // Rank-stabilised: alpha / sqrt(r) in place of alpha / r.
  if (reader.flag("use_rslora", false)) alpha_ *= std::sqrt(static_cast<double>(rank_));
  targets_ = words(reader, "target_modules");
  excluded_ = words(reader, "exclude_modules");
  all_linear_ = targets_.pattern && targets_.list[0] == "all-linear";
  if (all_linear_) targets_ = {};
  read_layers(reader);
}

// The layer is the last number after "<anything>.<word>.", where <word> is one of layers_pattern.
bool AdapterConfig::has_layer(const std::string& module) const {
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

bool AdapterConfig::names(const std::string& module) const {
  if (excluded_.has(module)) return false;
  return (!targets_.given() || targets_.has(module)) && has_layer(module);
}

} // namespace dllm::model

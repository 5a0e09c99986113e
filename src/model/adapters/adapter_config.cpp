#include "model/adapters/adapter_config.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/log.h"
#include "model/adapters/adapter_ranks.h"
#include "model/config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

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
    {"lora_dropout", used},
    // Storage of the base's matrix. PEFT sets it from the class of the base.
    {"fan_in_fan_out", harmless},
    {"bias", used},
    {"use_rslora", used},
    {"modules_to_save", used},
    {"init_lora_weights", used},
    {"layers_to_transform", used},
    {"layers_pattern", used},
    {"rank_pattern", used},
    {"alpha_pattern", used},
    {"megatron_config", off},
    {"megatron_core", harmless}, // of megatron_config
    {"trainable_token_indices", off},
    {"loftq_config", harmless},   // of a value of init_lora_weights
    {"eva_config", harmless},     // the same
    {"corda_config", harmless},   // the same
    {"lora_ga_config", harmless}, // the same
    {"use_dora", used},
    {"velora_config", harmless}, // what training keeps for the gradient
    {"alora_invocation_tokens", off},
    {"use_qalora", off},
    {"qalora_group_size", harmless}, // of use_qalora
    {"monteclora_config", off},
    {"layer_replication", off},
    {"runtime_config", harmless}, // the place of memory
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
  const std::string word = lower_case(reader.text(kKey, ""));
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

// Returns the pairs of rank_pattern or alpha_pattern, in the order of the file.
template <class T>
std::vector<std::pair<std::string, T>> pattern_pairs(const ConfigReader& reader, const char* key,
                                                     double low) {
  std::vector<std::pair<std::string, T>> pairs;
  if (!reader.has(key)) return pairs;
  const Json& object = reader.object().at(key);
  if (!object.is_object()) reader.bad(key, "an object of numbers");
  for (const auto& [pattern, value] : object.items()) {
    const bool fits = std::is_integral_v<T> ? value.is_number_integer() : value.is_number();
    if (!fits || value < low || value > 1e9) reader.bad(key, "an object of numbers");
    pairs.emplace_back(pattern, value.template get<T>());
  }
  return pairs;
}

} // namespace

std::span<const AdapterKey> adapter_keys() {
  return kKeys;
}

AdapterConfig::AdapterConfig(const Json& json, const std::string& file) {
  const ConfigReader reader(json, file);
  reader.require_text("peft_type", {"LORA"});
  check_keys(json, file);
  reader.require_text("bias", {"none"});
  check_start(reader);
  settings_.rank = reader.integer("r", 1, kMostRank, 8);
  settings_.alpha = reader.number("lora_alpha", 0, 1e9, 8);
  settings_.is_stabilised = reader.flag("use_rslora", false);
  settings_.has_magnitude = reader.flag("use_dora", false);
  settings_.dropout = reader.number("lora_dropout", 0, kMostDropout, 0);
  settings_.rank_pattern = pattern_pairs<int64_t>(reader, "rank_pattern", 1);
  settings_.alpha_pattern = pattern_pairs<double>(reader, "alpha_pattern", 0);
  if (reader.has("modules_to_save")) {
    const Json& words = reader.object().at("modules_to_save");
    const bool fits = words.is_array() && std::ranges::all_of(words, [](const Json& word) {
                        return word.is_string() && !word.get<std::string>().empty();
                      });
    if (!fits) reader.bad("modules_to_save", "a list of words");
    settings_.modules_to_save = words.get<std::vector<std::string>>();
  }
  targets_ = AdapterTargets(reader);
}

} // namespace dllm::model

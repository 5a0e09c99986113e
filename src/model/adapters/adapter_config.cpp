#include "model/adapters/adapter_config.h"

#include "base/error.h"
#include "base/log.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

namespace dllm::model {
namespace {

// The keys of PeftConfigMixin and PeftConfig of PEFT 0.21.2, in their order.
constexpr AdapterKey kKeysOfAll[] = {
    harmless_key("task_type"),
    used_key("peft_type"),
    harmless_key("auto_mapping"),
    harmless_key("peft_version"),
    harmless_key("base_model_name_or_path"),
    harmless_key("revision"),
    harmless_key("inference_mode"),
};

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

void check_keys(const Json& json, const AdapterKind& kind, const std::string& file) {
  const std::vector<AdapterKey> keys = adapter_keys(kind);
  for (const auto& [key, value] : json.items()) {
    const auto known = std::ranges::find(keys, key, &AdapterKey::name);
    if (known == keys.end()) {
      check_unknown(key, value, file);
    } else if (known->use == AdapterKeyUse::off && !is_off(value)) {
      fail_with_hint(kMergeHint, Code::unimplemented, "{}: {} = {} is not supported", file, key,
                     shown_value(value));
    }
  }
}

bool is_on(const ConfigReader& reader, const char* flag) {
  return reader.has(flag) && reader.object().at(flag) == true;
}

// Returns the kind of a config: of its type, and with its flag.
const AdapterKind& kind_in(const ConfigReader& reader) {
  const std::string type = reader.text("peft_type", adapter_kinds().front()->peft.type);
  const AdapterKind* found = nullptr;
  for (const AdapterKind* kind : adapter_kinds()) {
    if (type != kind->peft.type) continue;
    const char* flag = kind->peft.flag;
    if (flag == nullptr ? found == nullptr : is_on(reader, flag)) found = kind;
  }
  if (found == nullptr) reader.require_text("peft_type", {}); // fails
  return *found;
}

} // namespace

std::vector<AdapterKey> adapter_keys(const AdapterKind& kind) {
  std::vector<AdapterKey> keys(std::begin(kKeysOfAll), std::end(kKeysOfAll));
  for (const AdapterKind* other : adapter_kinds()) {
    if (std::string_view(other->peft.type) == kind.peft.type)
      keys.insert(keys.end(), other->peft.keys.begin(), other->peft.keys.end());
  }
  return keys;
}

AdapterConfig::AdapterConfig(const Json& json, const std::string& file) {
  const ConfigReader reader(json, file);
  kind_ = &kind_in(reader);
  settings_.kind = kind_->name;
  check_keys(json, *kind_, file);
  kind_->peft.read(reader, settings_);
  for (const AdapterKind* other : adapter_kinds()) {
    const bool is_of_type = std::string_view(other->peft.type) == kind_->peft.type;
    if (is_of_type && other->peft.flag != nullptr) reader.flag(other->peft.flag, false);
  }
  if (reader.has("modules_to_save")) {
    const Json& words = reader.object().at("modules_to_save");
    const bool fits = words.is_array() && std::ranges::all_of(words, [](const Json& word) {
                        return word.is_string() && !word.get<std::string>().empty();
                      });
    if (!fits) reader.bad("modules_to_save", "a list of words");
    settings_.modules_to_save = words.get<std::vector<std::string>>();
  }
  ties_weights_ = reader.flag(kTiesWeights, false);
  targets_ = AdapterTargets(reader);
}

} // namespace dllm::model

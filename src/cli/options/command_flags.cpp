#include "command_flags.h"

#include "names.h"
#include "option_list.h"

#include <nlohmann/json.hpp>

#include <cctype>
#include <memory>

namespace dllm::cli {
namespace {

// Returns the flag of a key that the command has with another policy, objective or schedule.
std::string flag_of_other_kind(const Command& command, const std::string& key) {
  for (const std::string& kind : command.kinds) {
    const size_t colon = kind.find(':');
    if (colon == std::string::npos) continue;
    const std::string base = kind.substr(0, colon), registry = kind.substr(colon + 1);
    for (const std::string& name : registry_names(registry)) {
      const auto schema =
          nlohmann::ordered_json::parse(text([&](dllm_buffer* out, dllm_error* err) {
            return dllm_options_schema((base + ":" + name).c_str(), out, err);
          }));
      for (const auto& row : schema.at("keys")) {
        if (row.at("name") == key) return option_name(base, key);
      }
    }
  }
  return "";
}

} // namespace

FlagOf flags_of(const Command& command) {
  const auto list = std::make_shared<const OptionList>(options_of(command));
  return [list, &command](std::string_view word) -> std::string {
    const std::string key(word);
    if (key.empty() || !std::isalpha(static_cast<unsigned char>(key[0]))) return "";
    const std::string bare = dashed("--" + key);
    if (list->find(bare) != nullptr) return bare;
    const Option* only = nullptr;
    for (const Option& option : list->all()) {
      if (option.targets.empty() || option.targets[0].key != key) continue;
      if (only != nullptr) return ""; // of several kinds
      only = &option;
    }
    return only != nullptr ? only->names[0] : flag_of_other_kind(command, key);
  };
}

} // namespace dllm::cli

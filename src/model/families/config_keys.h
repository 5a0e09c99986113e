#pragma once
// Keys of config.json by family, as the framework's config classes have them: each is read, or has one meaning that layers
// compute, or has no effect on the numbers.

#include "model/config.h"

#include <span>
#include <string>

namespace dllm::model {

enum class ConfigKeyUse {
  used,    // by the family's parse, which refuses what it cannot compute
  plain,   // null, or one of the values in `plain`; others change the numbers and are refused
  harmless // any value: of training, of generation, or of a part that is not read
};

struct ConfigKey {
  const char* name;
  ConfigKeyUse use;
  const char* plain = ""; // a list in JSON; a list in the file may hold these values
};

// Of a model_type; null: no family lists this key.
const ConfigKey* find_config_key(const std::string& model_type, const std::string& key);

// Fails with unimplemented for a plain key with another value. Keys that no table has are listed in the log.
void check_config_keys(const ConfigReader& reader, const std::string& model_type);

} // namespace dllm::model

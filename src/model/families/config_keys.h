#pragma once
// The keys of config.json by family, as the config classes of transformers have them. A key is
// read, or only values with one meaning are accepted, or it has no effect on the numbers.

#include "model/config.h"

#include <span>
#include <string>

namespace dllm::model {

enum class ConfigKeyUse {
  used, // read by the family's parse, which refuses values that it cannot compute
  // null, or one of the values in `plain`. Other values would change the numbers and are refused.
  plain,
  harmless // any value: for training, for generation, or for a part that is not read
};

struct ConfigKey {
  const char* name;
  ConfigKeyUse use;
  // A list in JSON. A list in the file may hold these values.
  const char* plain = "";
};

// Returns the key of a model_type; null: no table lists it.
const ConfigKey* find_config_key(const std::string& model_type, const std::string& key);

// Fails with unimplemented for a plain key with another value. For a model_type with a table, keys
// that no table has are logged.
void check_config_keys(const ConfigReader& reader, const std::string& model_type);

} // namespace dllm::model

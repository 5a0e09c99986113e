#pragma once
// A family: the keys of its config.json and the names of its tensors. Each family has one file.
// Layer kinds in layers/ define the computation, and keys.h has the functions that many families
// share.

#include "ckpt/gguf/gguf.h"
#include "model/config.h"
#include "model/layers/layer_kind.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

namespace dllm::model {

struct Family {
  const char* name;           // "llama"
  const char* model_types[4]; // of config.json; unused entries are null
  const char* gguf_names[2];  // general.architecture
  // Fills a config whose family, model_type and source are set. Settings outside of the family hold
  // their defaults already.
  void (*parse)(const ConfigReader& reader, ModelConfig& config);
  // Writes the family's keys into `object`, which holds the keys of the source file.
  void (*print)(const ModelConfig& config, Json& object);
  std::vector<ParamSpec> (*params)(const ModelConfig& config);
  // The class of transformers that reads the first of model_types; null: the models of the family
  // need code of their own repository.
  const char* transformers_class = nullptr;
};

std::span<const Family* const> all_families();
// Returns the family of this name. Fails with internal for an unknown name.
const Family& find_family(const std::string& name);
// Fails with unimplemented, and names the type and all known types.
const Family& family_of_model_type(const std::string& type);
// Returns the class of transformers that reads such a model, or null.
const char* transformers_class(const ModelConfig& config);

} // namespace dllm::model

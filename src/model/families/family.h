#pragma once
// A family: the words of its config.json and the names of its tensors, one file per family. What its layers compute is
// in layers/; what many families share is in keys.h.

#include "ckpt/gguf.h"
#include "model/config.h"
#include "model/layers/layer_kind.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

namespace dllm::model {

struct Family {
  const char* name;           // "llama"
  const char* model_types[4]; // of config.json; unused places are null
  const char* gguf_names[2];  // general.architecture
  // Fills a config whose family, model_type and source are set; settings other than the family
  // already hold the defaults for "all others".
  void (*parse)(const ConfigReader& reader, ModelConfig& config);
  // Writes the family's words into `object`, which holds the keys of the source file.
  void (*print)(const ModelConfig& config, Json& object);
  std::vector<ParamSpec> (*params)(const ModelConfig& config);
};

std::span<const Family* const> all_families();
const Family& find_family(const std::string& name); // by family name; internal when unknown
const Family&
family_of_model_type(const std::string& type); // unimplemented, naming the type and what there is

// One per file in families/.
extern const Family kBert, kDiffusionGemma, kDllmBert, kDllmMoe, kDream, kGemma2, kGemma3, kGpt2,
    kLlada, kLlada2, kLladaMoe, kLlama, kModernBert, kNanoDlm, kNemotronLabs, kQwen2, kQwen2Moe,
    kQwen3, kQwen35, kQwen3Moe, kQwen3Next, kWedlm;

} // namespace dllm::model

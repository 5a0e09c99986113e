#pragma once
// A family: the words of its config.json, its tensors, and how one of its layers computes. One file
// per family; those that are the same transformer in other words share `transformer.h`.

#include "ckpt/gguf.h"
#include "model/builder.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "model/param_map.h"

#include <span>
#include <string>
#include <vector>

namespace dllm::model {

// What one layer sees inside a scan's body. Values belong to the body's graph.
struct LayerInputs {
  const ModelConfig& config;
  graph::Value positions; // i32(batch, seq)
  graph::Value inv_freq;  // f32(rotary / 2), this layer's; undefined with learned positions
  graph::Value
      time; // f32(batch, size): embedding of the noise level; models with time conditioning
  float rope_amplitude = 1;
  graph::Mask mask; // with this layer's window
  bool empty_average = false;
  // Null when nothing is kept. attention_block replaces keys and values by what it has written.
  KvCache* cache = nullptr;
  bool round_kv = false;                      // to bf16
  std::map<std::string, graph::Value> params; // by name in its run: "q", "q.bias", "q.scale"
  std::map<std::string, float> factors;       // of adapters' products, by the same names
  std::map<std::string, Partition> partitions;

  Linear linear(const std::string& name) const; // with its bias, scale, adapters
  graph::Value param(const std::string& name) const; // undefined when the layer has none
};

struct Family {
  const char* name;           // "llama"
  const char* model_types[4]; // of config.json; unused places are null
  const char* gguf_names[2];  // general.architecture
  // Fills a config whose family, model_type and source are set; settings beside the family already
  // hold the defaults for "all others".
  void (*parse)(const ConfigReader& reader, ModelConfig& config);
  // Writes the family's words into `object`, which holds the keys of the source file.
  void (*print)(const ModelConfig& config, Json& object);
  std::vector<ParamSpec> (*params)(const ModelConfig& config);
  // hidden f32(batch, seq, hidden) -> the same, after one layer.
  graph::Value (*layer)(const LayerInputs& inputs, graph::Value hidden);
};

std::span<const Family* const> all_families();
const Family& find_family(const std::string& name); // by family name; internal when unknown
const Family&
family_of_model_type(const std::string& type); // unimplemented, naming the type and what there is

// One per file in families/.
extern const Family kDllmMoe, kDream, kGemma2, kGemma3, kGpt2, kLlada, kLlada2, kLladaMoe, kLlama,
    kNanoDlm, kQwen2, kQwen3, kQwen3Moe;

} // namespace dllm::model

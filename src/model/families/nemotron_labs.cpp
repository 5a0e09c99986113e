// Nemotron-Labs-Diffusion (NVIDIA 2026). It has Llama's layers under other names, YaRN, and queries
// that grow with their position. One model decodes in three ways: by diffusion, from left to right,
// and as its own draft model.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

AttentionKind paradigm(const ConfigReader& reader) {
  reader.require_text("dlm_paradigm", {"bidirectional", "autoregressive", "block_diff"});
  const std::string name = reader.text("dlm_paradigm", "bidirectional");
  if (name == "autoregressive") return AttentionKind::causal;
  return name == "block_diff" ? AttentionKind::block_causal : AttentionKind::bidirectional;
}

void parse_nemotron(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
  config.attention = paradigm(reader);
  config.block_length = reader.integer("block_size", 1, kMaxPositions, 32);
}

void print_nemotron(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"NemotronLabsDiffusionModel"};
  print_llama_keys(config, object);
  object["attention_bias"] = config.qkv_bias;
  object["mlp_bias"] = config.mlp_bias;
}

std::vector<ParamSpec> nemotron_params(const ModelConfig& config) {
  TensorNames names = llama_names();
  for (auto& [name, file] : names.files) {
    if (file.starts_with("model.")) file = "encoder." + file.substr(6);
  }
  names["head"] = "diffusion_head.weight";
  return transformer_params(config, names);
}

} // namespace

extern const Family kNemotronLabs;
const Family kNemotronLabs = {
    "nemotron-labs", {"nemotron_labs_diffusion"}, {}, parse_nemotron, print_nemotron,
    nemotron_params};

} // namespace dllm::model

// Qwen2 and Qwen2.5: Llama with biases on q, k and v (Hugging Face "qwen2"), and "a2d-qwen2",
// turned into a diffusion model.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = true;
  if (config.model_type == "a2d-qwen2") config.attention = AttentionKind::bidirectional;
}

void print(const ModelConfig& config, Json& object) {
  if (config.model_type == "qwen2") object["architectures"] = {"Qwen2ForCausalLM"};
  print_llama_keys(config, object);
}

std::vector<ParamSpec> params(const ModelConfig& config) {
  return transformer_params(config, llama_names());
}

} // namespace

const Family kQwen2 = {"qwen2", {"qwen2", "a2d-qwen2"}, {"qwen2"}, parse, print, params};

} // namespace dllm::model

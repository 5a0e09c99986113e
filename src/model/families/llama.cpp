// Llama 1 to 3 (Touvron et al. 2023; Hugging Face "llama"), and "a2d-llama", a diffusion model that
// was made from Llama.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_llama(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
  if (config.model_type == "a2d-llama") config.attention = AttentionKind::bidirectional;
}

void print_llama(const ModelConfig& config, Json& object) {
  if (config.model_type == "llama") object["architectures"] = {"LlamaForCausalLM"};
  print_llama_keys(config, object);
  object["attention_bias"] = config.qkv_bias;
  object["mlp_bias"] = config.mlp_bias;
}

std::vector<ParamSpec> llama_params(const ModelConfig& config) {
  return transformer_params(config, llama_names());
}

} // namespace

extern const Family kLlama;
const Family kLlama = {"llama",     {"llama", "a2d-llama"}, {"llama"},         parse_llama,
                       print_llama, llama_params,           "LlamaForCausalLM"};

} // namespace dllm::model

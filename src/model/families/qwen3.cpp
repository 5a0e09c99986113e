// Qwen3, dense (Hugging Face "qwen3"), with an RMSNorm on every head of q and k before the
// rotation. Diffusion models made from it are "a2d-qwen3", where every token sees every token, and
// "sdar" (Cheng et al. 2025), in blocks.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_qwen3(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.head_dim = reader.integer("head_dim", 1, kMaxSize, 128);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.qk_norm = true;
  if (config.model_type == "a2d-qwen3") config.attention = AttentionKind::bidirectional;
  if (config.model_type == "sdar") parse_sdar_blocks(reader, config);
}

void print_qwen3(const ModelConfig& config, Json& object) {
  if (config.model_type == "qwen3") object["architectures"] = {"Qwen3ForCausalLM"};
  if (config.model_type == "sdar") object["architectures"] = {"SDARForCausalLM"};
  print_llama_keys(config, object);
  object["attention_bias"] = config.qkv_bias;
}

std::vector<ParamSpec> qwen3_params(const ModelConfig& config) {
  return transformer_params(config, llama_names());
}

} // namespace

extern const Family kQwen3;
const Family kQwen3 = {"qwen3",           {"qwen3", "a2d-qwen3", "sdar"},
                       {"qwen3"},         parse_qwen3,
                       print_qwen3,       qwen3_params,
                       "Qwen3ForCausalLM"};

} // namespace dllm::model

// Qwen3-MoE (Hugging Face "qwen3_moe"). It has Qwen3's attention, and experts in place of the
// network of most layers. Diffusion models made from it are "sdar_moe" (Cheng et al. 2025), in
// blocks, and "rnd1" (Radical Numerics 2025), where every token sees every token.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_qwen3_moe(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.qk_norm = true;
  ExpertConfig& experts = config.experts;
  // transformers 5 has another key for the same number.
  const char* count = reader.has("num_local_experts") ? "num_local_experts" : "num_experts";
  experts.count = reader.integer(count, 1, kMaxSize, 128);
  experts.per_token = reader.integer("num_experts_per_tok", 1, experts.count, 8);
  experts.intermediate = reader.integer("moe_intermediate_size", 1, kMaxSize, 768);
  experts.normalize = reader.flag("norm_topk_prob", false);
  config.sparse = parse_sparse_layers(reader, config.layers);
  if (config.model_type == "sdar_moe") parse_sdar_blocks(reader, config);
  if (config.model_type == "rnd1") {
    config.attention = AttentionKind::bidirectional;
    config.shift = 1;
  }
}

void print_qwen3_moe(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"Qwen3MoeForCausalLM"};
  print_llama_keys(config, object);
  object["attention_bias"] = config.qkv_bias;
  object[object.contains("num_local_experts") ? "num_local_experts" : "num_experts"] =
      config.experts.count;
  object["num_experts_per_tok"] = config.experts.per_token;
  object["moe_intermediate_size"] = config.experts.intermediate;
  object["norm_topk_prob"] = config.experts.normalize;
  print_sparse_layers(config.sparse, object);
}

std::vector<ParamSpec> qwen3_moe_params(const ModelConfig& config) {
  return transformer_params(config, expert_names());
}

} // namespace

extern const Family kQwen3Moe;
const Family kQwen3Moe = {"qwen3-moe",          {"qwen3_moe", "sdar_moe", "rnd1"},
                          {"qwen3moe", "rnd1"}, parse_qwen3_moe,
                          print_qwen3_moe,      qwen3_moe_params,
                          "Qwen3MoeForCausalLM"};

} // namespace dllm::model

// Qwen1.5-MoE and Qwen2-MoE (Hugging Face "qwen2_moe"). They have Qwen2's attention, experts, and a
// shared expert whose result is multiplied by a sigmoid of each token.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_qwen2_moe(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = reader.flag("qkv_bias", true);
  ExpertConfig& experts = config.experts;
  experts.count = reader.integer("num_experts", 1, kMaxSize, 60);
  experts.per_token = reader.integer("num_experts_per_tok", 1, experts.count, 4);
  experts.intermediate = reader.integer("moe_intermediate_size", 1, kMaxSize, 1408);
  experts.shared = reader.integer("shared_expert_intermediate_size", 1, kMaxSize, 5632);
  experts.shared_gate = true;
  experts.normalize = reader.flag("norm_topk_prob", false);
  config.sparse = parse_sparse_layers(reader, config.layers);
}

void print_qwen2_moe(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"Qwen2MoeForCausalLM"};
  print_llama_keys(config, object);
  object["qkv_bias"] = config.qkv_bias;
  object["num_experts"] = config.experts.count;
  object["num_experts_per_tok"] = config.experts.per_token;
  object["moe_intermediate_size"] = config.experts.intermediate;
  object["shared_expert_intermediate_size"] = config.experts.shared;
  object["norm_topk_prob"] = config.experts.normalize;
  print_sparse_layers(config.sparse, object);
}

std::vector<ParamSpec> qwen2_moe_params(const ModelConfig& config) {
  return transformer_params(config, expert_names());
}

} // namespace

extern const Family kQwen2Moe;
const Family kQwen2Moe = {"qwen2-moe",     {"qwen2_moe"},    {"qwen2moe"},         parse_qwen2_moe,
                          print_qwen2_moe, qwen2_moe_params, "Qwen2MoeForCausalLM"};

} // namespace dllm::model

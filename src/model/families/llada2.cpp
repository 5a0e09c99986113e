// LLaDA2.0, 2.1 and 2.2 (inclusionAI 2025, 2026). Blocks see earlier blocks. Experts have sigmoid
// scores and a stored bias for the choice. The choice is limited to the best groups; in 2.2 it is
// limited to expert_capacity experts per block. The layers have a shared network, and one tensor
// holds q, k and v.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr int64_t kBlock = 32; // block length of training and of the published decoding loops

void parse_llada2(const ConfigReader& reader, ModelConfig& config) {
  reader.require_text("score_function", {"sigmoid"});
  reader.require_flag("norm_head", false);
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = reader.flag("use_qkv_bias", false);
  config.out_bias = reader.flag("use_bias", false);
  config.mlp_bias = false;
  config.qk_norm = reader.flag("use_qk_norm", true);
  config.attention = AttentionKind::block_causal;
  config.block_length = reader.integer("block_size", 1, kMaxPositions, kBlock);
  config.delete_token_id = reader.integer("delete_token_id", -1, kMaxVocab, -1);
  config.split_token_id = reader.integer("split_token_id", -1, kMaxVocab, -1);
  ExpertConfig& experts = config.experts;
  experts.count = reader.integer("num_experts", 1, kMaxSize);
  experts.per_token = reader.integer("num_experts_per_tok", 1, experts.count);
  experts.intermediate = reader.integer("moe_intermediate_size", 1, kMaxSize);
  // Several shared networks are stored as one network with their total width.
  experts.shared = experts.intermediate * reader.integer("num_shared_experts", 0, 1024, 0);
  experts.sigmoid = true;
  experts.normalize = experts.per_token > 1;
  experts.scale = reader.number("routed_scaling_factor", 0, 1e6, 1.0);
  experts.capacity = reader.integer("expert_capacity", 0, experts.count, 0);
  if (experts.capacity > 0) {
    // Files of 2.2 still have the keys of groups.
    experts.block = config.block_length;
    if (experts.capacity < experts.per_token)
      reader.bad("expert_capacity",
                 fmt::format("at least the {} experts of a token", experts.per_token));
  } else {
    experts.groups = reader.integer("n_group", 1, experts.count, 1);
    experts.kept_groups = reader.integer("topk_group", 1, experts.groups, experts.groups);
  }
  experts.bias = reader.flag("moe_router_enable_expert_bias", true);
  config.sparse =
      sparse_after(reader.integer("first_k_dense_replace", 0, kMaxLayers, 0), config.layers);
}

void print_llada2(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"LLaDA2MoeModelLM"};
  print_llama_keys(config, object);
  object["use_qkv_bias"] = config.qkv_bias;
  object["use_bias"] = config.out_bias;
  object["use_qk_norm"] = config.qk_norm;
  const ExpertConfig& experts = config.experts;
  object["num_experts"] = experts.count;
  object["num_experts_per_tok"] = experts.per_token;
  object["moe_intermediate_size"] = experts.intermediate;
  object["num_shared_experts"] = experts.shared / experts.intermediate;
  object["score_function"] = "sigmoid";
  object["routed_scaling_factor"] = experts.scale;
  if (experts.capacity > 0) {
    object["expert_capacity"] = experts.capacity;
    object["block_size"] = experts.block;
    if (config.delete_token_id >= 0) object["delete_token_id"] = config.delete_token_id;
    if (config.split_token_id >= 0) object["split_token_id"] = config.split_token_id;
  } else {
    object["n_group"] = experts.groups;
    object["topk_group"] = experts.kept_groups;
  }
  object["moe_router_enable_expert_bias"] = experts.bias;
  object["first_k_dense_replace"] = std::count(config.sparse.begin(), config.sparse.end(), false);
}

std::vector<ParamSpec> llada2_params(const ModelConfig& config) {
  const std::string layer = "model.layers.{}.";
  TensorNames names = expert_names();
  names["embedding"] = "model.word_embeddings.weight";
  names["q"] = names["k"] = names["v"] = "";
  names["qkv"] = layer + "attention.query_key_value.weight";
  names["out"] = layer + "attention.dense.weight";
  names["q_norm"] = layer + "attention.query_layernorm.weight";
  names["k_norm"] = layer + "attention.key_layernorm.weight";
  names["router.bias"] = layer + "mlp.gate.expert_bias";
  names["shared_gate"] = layer + "mlp.shared_experts.gate_proj.weight";
  names["shared_up"] = layer + "mlp.shared_experts.up_proj.weight";
  names["shared_down"] = layer + "mlp.shared_experts.down_proj.weight";
  return transformer_params(config, names);
}

} // namespace

extern const Family kLlada2;
const Family kLlada2 = {"llada2",     {"llada2_moe", "llada21_moe"}, {}, parse_llada2, print_llada2,
                        llada2_params};

} // namespace dllm::model

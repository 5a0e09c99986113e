// dllm-jax's decoder with experts and one shared network per layer ("dllm_moe"). The scores of
// chosen experts are always divided by their sum. Every token sees every token.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_dllm_moe(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", true);
  config.qk_norm = reader.flag("use_qk_norm", reader.flag("qk_layernorm", false));
  reader.require_flag("use_bias", false);
  reader.require_flag("attention_bias", false);
  config.attention = AttentionKind::bidirectional;
  ExpertConfig& experts = config.experts;
  experts.count = reader.integer("num_experts", 1, kMaxSize);
  experts.per_token = reader.integer("num_experts_per_tok", 1, experts.count, 1);
  experts.intermediate =
      reader.integer("moe_intermediate_size", 1, kMaxSize, config.intermediate_size);
  experts.shared = reader.integer("shared_expert_intermediate_size", 0, kMaxSize, 0);
  experts.normalize = true;
  config.sparse =
      reader.has("moe_layer_freq")
          ? parse_layer_flags(reader, "moe_layer_freq", config.layers)
          : sparse_after(reader.integer("first_k_dense_replace", 0, kMaxLayers, 0), config.layers);
}

void print_dllm_moe(const ModelConfig& config, Json& object) {
  print_llama_keys(config, object);
  object["use_qk_norm"] = config.qk_norm;
  object["num_experts"] = config.experts.count;
  object["num_experts_per_tok"] = config.experts.per_token;
  object["moe_intermediate_size"] = config.experts.intermediate;
  if (config.experts.shared > 0) object["shared_expert_intermediate_size"] = config.experts.shared;
  object["moe_layer_freq"] = print_layer_flags(config.sparse);
}

std::vector<ParamSpec> dllm_moe_params(const ModelConfig& config) {
  return transformer_params(config, expert_names());
}

} // namespace

extern const Family kDllmMoe;
const Family kDllmMoe = {"dllm-moe",     {"dllm_moe"},   {},
                         parse_dllm_moe, print_dllm_moe, dllm_moe_params};

} // namespace dllm::model

// LLaDA-MoE 7B-A1B. It has Llama's names, an RMSNorm on every head of q and k, and experts with
// softmax scores that are not divided by their sum. Every token sees every token.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

// Switches of the original code. Its published models have these values.
void require_llada_moe_published_form(const ConfigReader& reader) {
  reader.require_flag("moe_router_enable_expert_bias", false);
  reader.require_text("moe_router_score_function", {"softmax"});
  for (const char* key : {"clip_qkv", "router_num_group", "router_topk_group"}) {
    if (reader.has(key)) reader.bad(key, "null, as in the published models");
  }
  if (reader.number("routed_scaling_factor", 0, 1e6, 1.0) != 1.0)
    reader.bad("routed_scaling_factor", "1, as in the published models");
}

// The original code divides hidden_size by the heads and does not read head_dim.
void require_whole_heads(const ConfigReader& reader, const ModelConfig& config) {
  if (config.head_dim * config.heads == config.hidden_size) return;
  reader.bad("head_dim", fmt::format("hidden_size {} / num_attention_heads {}", config.hidden_size,
                                     config.heads));
}

void parse_llada_moe(const ConfigReader& reader, ModelConfig& config) {
  require_llada_moe_published_form(reader);
  ExpertConfig& experts = config.experts;
  experts.intermediate = reader.integer("expert_intermediate_size", 1, kMaxSize);
  // Dense layers have their own width; parse_llama_keys needs one even where there are none.
  Json words = reader.object();
  const char* dense =
      reader.has("dense_intermediate_size") ? "dense_intermediate_size" : "intermediate_size";
  words["intermediate_size"] = reader.integer(dense, 1, kMaxSize, experts.intermediate);
  // Defaults that differ from Llama's.
  if (!reader.has("rms_norm_eps")) words["rms_norm_eps"] = 1e-5;
  if (!reader.has("max_position_embeddings")) words["max_position_embeddings"] = 4096;
  parse_llama_keys(ConfigReader(words, reader.file()), config);
  require_whole_heads(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.qk_norm = reader.flag("qk_layernorm", false);
  config.attention = AttentionKind::bidirectional;
  experts.count = reader.integer("num_experts", 1, kMaxSize);
  experts.per_token = reader.integer("num_experts_per_tok", 1, experts.count);
  experts.shared = reader.integer("shared_expert_intermediate_size", 1, kMaxSize, 0);
  // The original code stores the key, but never divides by the sum.
  reader.flag("norm_topk_prob", false);
  experts.normalize = false;
  config.sparse = reader.has("moe_layer_freq")
                      ? parse_layer_flags(reader, "moe_layer_freq", config.layers)
                      : sparse_after(0, config.layers);
}

void print_llada_moe(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"LLaDAMoEModelLM"};
  const bool plain_word = object.contains("intermediate_size");
  print_llama_keys(config, object);
  if (!plain_word) object.erase("intermediate_size");
  object["dense_intermediate_size"] = config.intermediate_size;
  object["attention_bias"] = config.qkv_bias;
  object["qk_layernorm"] = config.qk_norm;
  object["num_experts"] = config.experts.count;
  object["num_experts_per_tok"] = config.experts.per_token;
  object["expert_intermediate_size"] = config.experts.intermediate;
  object["shared_expert_intermediate_size"] =
      config.experts.shared > 0 ? Json(config.experts.shared) : Json(nullptr);
  if (!object.contains("norm_topk_prob")) object["norm_topk_prob"] = false;
  object["moe_layer_freq"] = print_layer_flags(config.sparse);
}

std::vector<ParamSpec> llada_moe_params(const ModelConfig& config) {
  TensorNames names = expert_names();
  const std::string shared = "model.layers.{}.shared_expert."; // next to the MLP, not inside
  names["shared_gate"] = shared + "gate_proj.weight";
  names["shared_up"] = shared + "up_proj.weight";
  names["shared_down"] = shared + "down_proj.weight";
  return transformer_params(config, names);
}

} // namespace

extern const Family kLladaMoe;
const Family kLladaMoe = {"llada-moe",     {"lladamoe", "llada_moe"}, {"llada-moe"},
                          parse_llada_moe, print_llada_moe,           llada_moe_params};

} // namespace dllm::model

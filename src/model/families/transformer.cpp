#include "model/families/transformer.h"

#include "model/layers/layer_kind.h"

namespace dllm::model {
TensorNames llama_names() {
  const std::string layer = "model.layers.{}.";
  TensorNames names;
  names["embedding"] = "model.embed_tokens.weight";
  names["norm"] = "model.norm.weight";
  names["head"] = "lm_head.weight";
  names["attention_norm"] = layer + "input_layernorm.weight";
  names["mlp_norm"] = layer + "post_attention_layernorm.weight";
  names["q"] = layer + "self_attn.q_proj.weight";
  names["k"] = layer + "self_attn.k_proj.weight";
  names["v"] = layer + "self_attn.v_proj.weight";
  names["out"] = layer + "self_attn.o_proj.weight";
  names["q_norm"] = layer + "self_attn.q_norm.weight";
  names["k_norm"] = layer + "self_attn.k_norm.weight";
  names["gate"] = layer + "mlp.gate_proj.weight";
  names["up"] = layer + "mlp.up_proj.weight";
  names["down"] = layer + "mlp.down_proj.weight";
  return names;
}

std::vector<ParamSpec> transformer_params(const ModelConfig& config, const TensorNames& names) {
  const int64_t hidden = config.hidden_size;
  ParamTable table(config, names);
  table.add("embedding", ParamRole::embedding, {config.vocab_size, hidden});
  if (config.positions == PositionKind::learned)
    table.add("positions", ParamRole::positions, {config.max_positions, hidden});
  for (const LayerRun& run : layer_runs(config)) add_layer_params(table, config, run);
  table.norm("norm", hidden);
  if (!config.tie_embeddings) table.matrix("head", config.vocab_size, hidden);
  for (const HeadConfig& head : config.other_heads) table.matrix(head.weight, head.rows, hidden);
  return table.take();
}

} // namespace dllm::model

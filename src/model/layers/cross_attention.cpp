// Attention of the positions of a sequence over the vectors of another one, the context (Vaswani et
// al. 2017). Kind self_cross_attention first lets the positions exchange values, as the layers of a
// Perceiver (Jaegle et al. 2021) and of a decoder do.

#include "graph/ops.h"
#include "model/layers/layer_kind.h"

#include <cmath>

namespace dllm::model {
namespace {

void cross_params(ParamTable& table, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, context = config.tower.context;
  table.matrix("cross_q", config.query_size(), hidden, config.qkv_bias);
  table.matrix("cross_k", config.kv_size(), context, config.qkv_bias);
  table.matrix("cross_v", config.kv_size(), context, config.qkv_bias);
  table.matrix("cross_out", hidden, config.query_size(), config.out_bias);
}

graph::Value build_cross(const LayerInputs& inputs, graph::Value x) {
  const ModelConfig& config = inputs.config;
  const auto heads = [&](graph::Value rows, const char* name) {
    const graph::Value all = linear_param(inputs, rows, name);
    return graph::reshape(all,
                          {all.dim(0), all.dim(1), all.dim(2) / config.head_dim, config.head_dim});
  };
  graph::AttentionOptions options;
  options.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  const graph::Value mixed =
      graph::attention(heads(x, "cross_q"), heads(inputs.context, "cross_k"),
                       heads(inputs.context, "cross_v"), inputs.context_mask, options);
  return linear_param(inputs, graph::reshape(mixed, {x.dim(0), x.dim(1), config.query_size()}),
                      "cross_out");
}

LayerCost cross_cost(const ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_size);
  return {4 * hidden * static_cast<double>(config.query_size()), 0};
}

void self_cross_params(ParamTable& table, const ModelConfig& config) {
  kAttention.params(table, config);
  add_block_norm(table, config, "cross_norm", true);
  cross_params(table, config);
}

// `x` is the stream; the result is what both halves add to it.
graph::Value build_self_cross(const LayerInputs& inputs, graph::Value x) {
  const graph::Value own = block_result(
      inputs, kAttention.build(inputs, block_input(inputs, x, "attention_norm")), "attention_norm");
  const graph::Value cross = block_result(
      inputs, build_cross(inputs, block_input(inputs, graph::add(x, own), "cross_norm")),
      "cross_norm");
  return graph::add(own, cross);
}

LayerCost self_cross_cost(const ModelConfig& config) {
  const LayerCost own = kAttention.cost(config), cross = cross_cost(config);
  return {own.per_token + cross.per_token, own.per_pair + cross.per_pair};
}

} // namespace

const LayerKind kCrossAttention = {"cross_attention", LayerPart::mixer, cross_params,
                                   build_cross,       cross_cost,       nullptr};
const LayerKind kSelfCrossAttention = {"self_cross_attention",
                                       LayerPart::mixer,
                                       self_cross_params,
                                       build_self_cross,
                                       self_cross_cost,
                                       kAttention.state,
                                       true};

} // namespace dllm::model

// A network of two layers, or a gated one (Shazeer 2020).

#include "graph/ops.h"
#include "model/layers/layer_kind.h"

namespace dllm::model {
namespace {

void mlp_params(ParamTable& table, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  if (config.gated_mlp) table.matrix("gate", inner, hidden, config.mlp_bias);
  table.matrix("up", inner, hidden, config.mlp_bias);
  table.matrix("down", hidden, inner, config.mlp_bias);
}

graph::Value activate(const std::string& kind, graph::Value x) {
  if (kind == "silu") return graph::silu(x);
  if (kind == "relu") return graph::maximum(x, graph::scalar(*x.graph, 0.0f));
  return graph::gelu(x, kind == "gelu_tanh");
}

LayerCost mlp_cost(const ModelConfig& config) {
  const double matrices = config.gated_mlp ? 3 : 2;
  return {2 * matrices * static_cast<double>(config.hidden_size) *
              static_cast<double>(config.intermediate_size),
          0};
}

} // namespace

graph::Value mlp_block(const LayerInputs& inputs, graph::Value x) {
  const std::string& kind = inputs.config.activation;
  const graph::Value up = linear_param(inputs, x, "up");
  if (!inputs.config.gated_mlp) return linear_param(inputs, activate(kind, up), "down");
  const graph::Value gate = linear_param(inputs, x, "gate");
  return linear_param(inputs, graph::gated_activation(gate, up, kind), "down");
}

const LayerKind kMlp = {"mlp", LayerPart::network, mlp_params, mlp_block, mlp_cost, nullptr};

} // namespace dllm::model

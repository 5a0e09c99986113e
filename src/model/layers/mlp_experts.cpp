// The network of Gemma 4's layers with experts: a dense network that every token passes, and
// experts. Each has its own norm before it, and each result is normed before the two are added. The
// router reads the residual stream.

#include "graph/ops.h"
#include "model/layers/layer_kind.h"

#include <cmath>

namespace dllm::model {
namespace {

void mlp_experts_params(ParamTable& table, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  table.matrix("gate", inner, hidden);
  table.matrix("up", inner, hidden);
  table.matrix("down", hidden, inner);
  table.norm("dense_post_norm", hidden);
  table.add("router", ParamRole::router, {config.experts.count, hidden});
  table.norm("router_norm", hidden);
  table.norm("expert_factors", config.experts.count);
  table.norm("expert_norm", hidden);
  table.norm("expert_post_norm", hidden);
  add_expert_stacks(table, config);
}

// Routes by softmax(W (rms(r) scale / sqrt(hidden))). The shares of the chosen experts add up to 1
// and are then multiplied by a factor per expert.
ExpertChoice route(const LayerInputs& inputs, graph::Value residual) {
  const int64_t hidden = residual.dim(2);
  graph::Graph& graph = *residual.graph;
  const graph::Value shrink =
      graph::scalar(graph, static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden))));
  const graph::Value rows = graph::multiply(norm(inputs, residual, "router_norm"), shrink);
  const graph::Value tokens =
      graph::reshape(rows, {residual.dim(0) * residual.dim(1), hidden}); // (rows, hidden)
  ExpertChoice choice = choose_experts(
      inputs.config.experts, linear_param(inputs, tokens, "router"), {}, inputs.positions);
  const graph::Value factors = inputs.param("expert_factors"); // (count)
  const graph::Value own =
      graph::take(graph::reshape(factors, {factors.dim(0), 1}), choice.experts);
  choice.shares = graph::multiply(choice.shares, graph::reshape(own, choice.shares.shape()));
  return choice;
}

graph::Value build_mlp_experts(const LayerInputs& inputs, graph::Value residual) {
  const graph::Value dense =
      norm(inputs, mlp_block(inputs, norm(inputs, residual, "mlp_norm")), "dense_post_norm");
  const graph::Value mixed =
      mix_experts(inputs, norm(inputs, residual, "expert_norm"), route(inputs, residual));
  return graph::add(dense, norm(inputs, mixed, "expert_post_norm"));
}

LayerCost mlp_experts_cost(const ModelConfig& config) {
  const LayerCost dense = kMlp.cost(config), experts = kExperts.cost(config);
  return {dense.per_token + experts.per_token, 0};
}

} // namespace

const LayerKind kMlpExperts = {"mlp_experts",
                               LayerPart::network,
                               mlp_experts_params,
                               build_mlp_experts,
                               mlp_experts_cost,
                               nullptr,
                               true};

} // namespace dllm::model

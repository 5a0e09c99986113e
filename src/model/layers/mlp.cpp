// A network of two layers, or a gated one (Shazeer 2020).
#include "graph/ops.h"
#include "model/layers/layer_kind.h"

#include <limits>

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

// Layers with experts: a router scores every expert for every token, a few are chosen, and the
// token gets the weighted sum of what they make of it. All rows of one expert are one product.

namespace {

struct Choice {
  graph::Value experts; // i32(rows, per_token), the best first
  graph::Value shares;  // f32(rows, per_token)
};

// f32(rows, experts) -> the same, with -inf for the experts of all but the best groups; a group is
// as good as its two best experts together (DeepSeek-V3).
graph::Value keep_best_groups(const ExpertConfig& experts, graph::Value merit) {
  const int64_t rows = merit.dim(0), groups = experts.groups, size = experts.count / groups;
  const graph::Value grouped = graph::reshape(merit, {rows, groups, size});
  const graph::Value group_merit =
      graph::sum(graph::top_k(grouped, std::min<int64_t>(2, size)).values, {2});
  const graph::Value best = graph::top_k(group_merit, experts.kept_groups).indices;
  const graph::Value number = graph::iota(*merit.graph, {1, groups, 1}, DType::i32, 1);
  const graph::Value hit = graph::convert(
      graph::equal(graph::reshape(best, {rows, 1, experts.kept_groups}), number), DType::i32);
  const graph::Value kept = graph::greater(graph::max(hit, {2}, true),
                                           graph::scalar_i32(*merit.graph, 0)); // (rows, groups, 1)
  const graph::Value never = graph::scalar(*merit.graph, -std::numeric_limits<float>::infinity());
  return graph::reshape(graph::select(graph::broadcast(kept, grouped.shape()), grouped,
                                      graph::broadcast(never, grouped.shape())),
                        merit.shape());
}

Choice choose(const ExpertConfig& experts, graph::Value logits, graph::Value bias) {
  const graph::Value scores = experts.sigmoid ? graph::logistic(logits) : graph::softmax(logits, 1);
  graph::Value merit = bias.defined() ? graph::add(scores, bias) : scores;
  if (experts.groups > 1) merit = keep_best_groups(experts, merit);
  Choice choice;
  choice.experts = graph::top_k(merit, experts.per_token).indices;
  choice.shares = graph::take_along(scores, choice.experts, 1);
  if (experts.normalize) {
    // Scores can be 0 together only where all sigmoids underflow.
    const graph::Value least = graph::scalar(*logits.graph, 1e-20f);
    choice.shares =
        graph::divide(choice.shares, graph::add(graph::sum(choice.shares, {1}, true), least));
  }
  if (experts.scale != 1) {
    choice.shares = graph::multiply(
        choice.shares, graph::scalar(*logits.graph, static_cast<float>(experts.scale)));
  }
  return choice;
}

void expert_params(ParamTable& table, const ModelConfig& config) {
  const ExpertConfig& experts = config.experts;
  const int64_t hidden = config.hidden_size;
  table.add("router", ParamRole::router, {experts.count, hidden});
  if (experts.bias) table.add("router.bias", ParamRole::bias, {experts.count});
  table.experts("expert_gate", experts.count, experts.intermediate, hidden);
  table.experts("expert_up", experts.count, experts.intermediate, hidden);
  table.experts("expert_down", experts.count, hidden, experts.intermediate);
  if (experts.shared == 0) return;
  table.matrix("gate", experts.shared, hidden, false, "shared_gate");
  table.matrix("up", experts.shared, hidden, false, "shared_up");
  table.matrix("down", hidden, experts.shared, false, "shared_down");
  if (experts.shared_gate) table.add("shared_router", ParamRole::router, {1, hidden});
}

// Of Qwen2-MoE: what the shared network makes, times sigmoid(w x).
graph::Value build_shared(const LayerInputs& inputs, graph::Value x) {
  const graph::Value made = mlp_block(inputs, x);
  if (!inputs.config.experts.shared_gate) return made;
  return graph::multiply(graph::logistic(linear_param(inputs, x, "shared_router")), made);
}

graph::Value build_experts(const LayerInputs& inputs, graph::Value x) {
  const ExpertConfig& experts = inputs.config.experts;
  const int64_t rows = x.dim(0) * x.dim(1), hidden = x.dim(2), chosen = experts.per_token;
  const graph::Value tokens = graph::reshape(x, {rows, hidden});
  Linear router = inputs.linear("router");
  router.bias = {}; // it is added to the scores of the choice, not to the logits
  const Choice choice = choose(experts, product(router, tokens), inputs.param("router.bias"));
  const auto each = [&](graph::Value from, graph::Value numbers, const std::string& name) {
    return expert_product(inputs.linear(name), from, numbers);
  };
  const graph::Value inner = graph::gated_activation(
      each(tokens, choice.experts, "expert_gate"), each(tokens, choice.experts, "expert_up"),
      inputs.config.activation); // (rows, chosen, intermediate)
  const graph::Value made = each(graph::reshape(inner, {rows * chosen, experts.intermediate}),
                                 graph::reshape(choice.experts, {rows * chosen, 1}), "expert_down");
  const graph::Value shared = graph::multiply(graph::reshape(made, {rows, chosen, hidden}),
                                              graph::reshape(choice.shares, {rows, chosen, 1}));
  const graph::Value mixed = graph::reshape(graph::sum(shared, {1}), x.shape());
  return experts.shared > 0 ? graph::add(mixed, build_shared(inputs, x)) : mixed;
}

LayerCost expert_cost(const ModelConfig& config) {
  const ExpertConfig& experts = config.experts;
  const auto width = static_cast<double>(experts.per_token * experts.intermediate + experts.shared);
  return {2 * static_cast<double>(config.hidden_size) *
              (static_cast<double>(experts.count + (experts.shared_gate ? 1 : 0)) + 3 * width),
          0};
}

} // namespace

const LayerKind kExperts = {"experts",     LayerPart::network, expert_params,
                            build_experts, expert_cost,        nullptr};

} // namespace dllm::model

// A network of two layers, or a gated one (Shazeer 2020).
#include "base/error.h"
#include "graph/ops.h"
#include "model/layers/layer_kind.h"
#include "model/network/expert_rows.h"

#include <limits>

namespace dllm::model {

namespace {

void mlp_params(ParamTable& table, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  if (table.has("gate_up")) {
    table.matrix("gate_up", 2 * inner, hidden, config.mlp_bias);
  } else {
    if (config.gated_mlp) table.matrix("gate", inner, hidden, config.mlp_bias);
    table.matrix("up", inner, hidden, config.mlp_bias);
  }
  table.matrix("down", hidden, inner, config.mlp_bias);
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
  if (inputs.param("gate_up").defined()) {
    const graph::Value both = linear_param(inputs, x, "gate_up"); // (batch, seq, 2 inner)
    const int64_t axis = both.rank() - 1, inner = both.dim(axis) / 2;
    const graph::Value gate = graph::slice_axis(both, axis, 0, inner);
    const graph::Value up = graph::slice_axis(both, axis, inner, 2 * inner);
    return linear_param(inputs, graph::gated_activation(gate, up, kind), "down");
  }
  const graph::Value up = linear_param(inputs, x, "up");
  if (!inputs.config.gated_mlp) return linear_param(inputs, graph::activation(up, kind), "down");
  const graph::Value gate = linear_param(inputs, x, "gate");
  return linear_param(inputs, graph::gated_activation(gate, up, kind), "down");
}

const LayerKind kMlp = {"mlp", LayerPart::network, mlp_params, mlp_block, mlp_cost, nullptr};

// Layers with experts. A router scores every expert for every token, and a few experts are chosen.
// The token gets the weighted sum of their results. One product computes all rows of one expert.

namespace {

// Returns f32(rows, experts) with -inf for the experts outside of the best groups. The merit of a
// group is the sum of its two best experts (DeepSeek-V3).
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

// Returns the scores with -inf for experts that a row's block of positions may not choose. A block
// may choose the `capacity` experts with the highest score of any of its rows. A window may begin
// inside of a block, and the padding after it has position 0.
graph::Value keep_capacity(const ExpertConfig& experts, graph::Value merit,
                           graph::Value positions) {
  graph::Graph& graph = *merit.graph;
  const auto number = [&](int64_t x) { return graph::scalar_i32(graph, static_cast<int32_t>(x)); };
  const graph::Value never = graph::scalar(graph, -std::numeric_limits<float>::infinity());
  const int64_t batch = positions.dim(0), seq = positions.dim(1), block = experts.block,
                count = experts.count, blocks = (seq + 2 * block - 2) / block,
                slots = blocks * block;
  const graph::Value first = graph::slice_axis(positions, 1, 0, 1); // (batch, 1)
  const graph::Value lead =
      graph::subtract(first, graph::multiply(graph::divide(first, number(block)), number(block)));
  const graph::Value row = graph::multiply(graph::iota(graph, {batch, 1}, DType::i32, 0),
                                           number(seq)); // of the window's first position
  // Puts the rows into slots of whole blocks, (batch, slots).
  const graph::Value place = graph::subtract(graph::iota(graph, {1, slots}, DType::i32, 1), lead);
  const graph::Value inside = graph::minimum(graph::maximum(place, number(0)), number(seq - 1));
  const graph::Value source = graph::add(row, inside);
  const graph::Value stands = graph::take(graph::reshape(positions, {batch * seq}), source);
  const graph::Value used = graph::equal(stands, graph::add(first, place));
  const Shape laid{batch, slots, count};
  const graph::Value scores =
      graph::select(graph::broadcast(graph::reshape(used, {batch, slots, 1}), laid),
                    graph::take(merit, source), graph::broadcast(never, laid));
  const graph::Value best =
      graph::max(graph::reshape(scores, {batch * blocks, block, count}), {1}); // (blocks, count)
  const graph::Value chosen = graph::top_k(best, experts.capacity).indices;
  const graph::Value hit =
      graph::convert(graph::equal(graph::reshape(chosen, {batch * blocks, 1, experts.capacity}),
                                  graph::iota(graph, {1, count, 1}, DType::i32, 1)),
                     DType::i32);
  const graph::Value allowed = graph::max(hit, {2}); // i32(blocks, count)
  const graph::Value own_block = graph::add(
      graph::multiply(graph::iota(graph, {batch, 1}, DType::i32, 0), number(blocks)),
      graph::divide(graph::add(graph::iota(graph, {1, seq}, DType::i32, 1), lead), number(block)));
  const graph::Value kept =
      graph::greater(graph::take(allowed, graph::reshape(own_block, {batch * seq})), number(0));
  return graph::select(kept, merit, graph::broadcast(never, merit.shape()));
}

} // namespace

ExpertChoice choose_experts(const ExpertConfig& experts, graph::Value logits, graph::Value bias,
                            graph::Value positions) {
  const graph::Value scores = experts.sigmoid ? graph::logistic(logits) : graph::softmax(logits, 1);
  graph::Value merit = bias.defined() ? graph::add(scores, bias) : scores;
  if (experts.capacity > 0)
    merit = keep_capacity(experts, merit, positions);
  else if (experts.groups > 1)
    merit = keep_best_groups(experts, merit);
  ExpertChoice choice;
  choice.experts = graph::top_k(merit, experts.per_token).indices;
  choice.shares = graph::take_along(scores, choice.experts, 1);
  if (experts.normalize) {
    // All scores are 0 only where all sigmoids underflow.
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

void add_expert_stacks(ParamTable& table, const ModelConfig& config) {
  const ExpertConfig& experts = config.experts;
  const int64_t hidden = config.hidden_size;
  if (experts.joined) {
    table.experts("expert_gate_up", experts.count, 2 * experts.intermediate, hidden);
  } else {
    table.experts("expert_gate", experts.count, experts.intermediate, hidden);
    table.experts("expert_up", experts.count, experts.intermediate, hidden);
  }
  table.experts("expert_down", experts.count, hidden, experts.intermediate);
}

namespace {

void expert_params(ParamTable& table, const ModelConfig& config) {
  const ExpertConfig& experts = config.experts;
  const int64_t hidden = config.hidden_size;
  table.add("router", ParamRole::router, {experts.count, hidden});
  if (experts.bias) table.add("router.bias", ParamRole::bias, {experts.count});
  add_expert_stacks(table, config);
  if (experts.shared == 0) return;
  table.matrix("gate", experts.shared, hidden, false, "shared_gate");
  table.matrix("up", experts.shared, hidden, false, "shared_up");
  table.matrix("down", hidden, experts.shared, false, "shared_down");
  if (experts.shared_gate) table.add("shared_router", ParamRole::router, {1, hidden});
}

// Experts that a block chooses together need consecutive positions.
void check_rows(const LayerInputs& inputs) {
  if (inputs.config.experts.capacity == 0) return;
  for (const graph::MaskTerm& term : inputs.mask.terms) {
    if (term.kind == graph::MaskKind::two_stream || term.kind == graph::MaskKind::segments)
      fail_with_hint("train with mdlm or llada_sft, one text to a row", Code::unimplemented,
                     "experts with expert_capacity are chosen by blocks of positions, and these "
                     "rows hold {}",
                     term.kind == graph::MaskKind::segments ? "several texts" : "two streams");
  }
}

// Returns the result of the shared network times sigmoid(w x), as in Qwen2-MoE.
graph::Value build_shared(const LayerInputs& inputs, graph::Value x) {
  const graph::Value made = mlp_block(inputs, x);
  if (!inputs.config.experts.shared_gate) return made;
  return graph::multiply(graph::logistic(linear_param(inputs, x, "shared_router")), made);
}

// Returns act(gate) * up of every chosen expert: (rows, chosen, intermediate).
graph::Value expert_inner(const LayerInputs& inputs, const ExpertRows& sent) {
  const auto each = [&](const char* name) {
    return expert_product(inputs.linear(name), sent.rows, sent.experts);
  };
  const std::string& act = inputs.config.activation;
  const int64_t size = inputs.config.experts.intermediate;
  if (!inputs.config.experts.joined)
    return graph::gated_activation(each("expert_gate"), each("expert_up"), act);
  const graph::Value both = each("expert_gate_up");
  return graph::gated_activation(graph::slice_axis(both, 2, 0, size),
                                 graph::slice_axis(both, 2, size, 2 * size), act);
}

} // namespace

graph::Value mix_experts(const LayerInputs& inputs, graph::Value x, const ExpertChoice& choice) {
  const int64_t hidden = x.dim(2), chosen = inputs.config.experts.per_token;
  const graph::Value tokens = graph::reshape(x, {x.dim(0) * x.dim(1), hidden});
  const Linear stack = inputs.linear("expert_down");
  const ExpertRows own{tokens, choice.experts, choice.shares}, sent = send_to_experts(stack, own);
  const int64_t rows = sent.rows.dim(0);
  const graph::Value inner = expert_inner(inputs, sent);
  const graph::Value made = expert_product(
      stack, graph::reshape(inner, {rows * chosen, inputs.config.experts.intermediate}),
      graph::reshape(sent.experts, {rows * chosen, 1}));
  const graph::Value shared = graph::multiply(graph::reshape(made, {rows, chosen, hidden}),
                                              graph::reshape(sent.shares, {rows, chosen, 1}));
  return graph::reshape(return_from_experts(stack, graph::sum(shared, {1}), own), x.shape());
}

namespace {

graph::Value build_experts(const LayerInputs& inputs, graph::Value x) {
  check_rows(inputs);
  const ExpertConfig& experts = inputs.config.experts;
  const graph::Value tokens = graph::reshape(x, {x.dim(0) * x.dim(1), x.dim(2)});
  Linear router = inputs.linear("router");
  router.bias = {}; // the bias is added to the scores of the choice, not to the logits
  const ExpertChoice choice = choose_experts(experts, product(router, tokens),
                                             inputs.param("router.bias"), inputs.positions);
  const graph::Value mixed = mix_experts(inputs, x, choice);
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

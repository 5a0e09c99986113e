// Muon (Jordan 2024, github.com/KellerJordan/Muon). Five Newton-Schulz steps of odd degree 5 make
// the momentum of every matrix of a layer nearly orthogonal:
//   m <- mu m + g,  X = d / |d| with d = g + mu m (Nesterov) or m,
//   X <- a X + (b X X' + c (X X')^2) X,  p <- p - lr (s X + weight_decay p).
// With s = 0.2 sqrt(max(out, in)) (Liu et al. 2025) a step is as large as AdamW's, so that both
// share lr. The other choice is s = sqrt(max(1, out / in)) (Jordan 2024). AdamW updates embeddings,
// the head, norms, biases, routers and adapters.

#include "graph/ops.h"
#include "train/optimizers/table.h"

#include <algorithm>
#include <cmath>

namespace dllm::train::optimizer_files {
namespace {

using graph::Value;

constexpr int kNewtonSteps = 5;
constexpr float kNewton[3] = {3.4445f, -4.7750f, 2.0315f}; // a, b, c

const Optimizer& muon_rest() {
  static const Optimizer made = adamw();
  return made;
}

bool is_layer_matrix(const model::ParamSpec& parameter) {
  return parameter.role == model::ParamRole::weight && parameter.layers > 0 &&
         parameter.element.rank() >= 2;
}

std::vector<StateArray> muon_state(const Options& options, const model::ParamSpec& parameter) {
  if (is_layer_matrix(parameter)) return {{"momentum", like_parameter(parameter)}};
  return muon_rest().state(options, parameter);
}

// AdamW's scalars come first, then the momentum.
std::vector<StepScalar> muon_scalar_names() {
  std::vector<StepScalar> names = muon_rest().scalars;
  names.push_back({"momentum", 1.0f});
  return names;
}

std::vector<double> muon_scalars(const Options& options, const UpdateInfo& info) {
  std::vector<double> made = muon_rest().step_scalars(options, info);
  made.push_back(options.f64("muon_momentum"));
  return made;
}

// Divides x (.., m, n) by its norm and moves its singular values to about 1.
Value orthogonal(Value x) {
  graph::Graph& graph = *x.graph;
  const int64_t rank = x.rank();
  const Value norm = graph::sqrt(graph::sum(graph::multiply(x, x), {rank - 2, rank - 1}, true));
  x = graph::divide(x, graph::add(norm, graph::scalar(graph, 1e-7f)));
  std::vector<int64_t> turn(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) turn[static_cast<size_t>(i)] = i;
  std::swap(turn[turn.size() - 1], turn[turn.size() - 2]);
  const bool tall = x.dim(rank - 2) > x.dim(rank - 1); // the smaller product is squared
  if (tall) x = graph::transpose(x, turn);
  const auto times = [&](Value y, float factor) {
    return graph::multiply(y, graph::scalar(graph, factor));
  };
  for (int step = 0; step < kNewtonSteps; ++step) {
    const Value square = graph::dot(x, graph::transpose(x, turn));
    const Value mix =
        graph::add(times(square, kNewton[1]), times(graph::dot(square, square), kNewton[2]));
    x = graph::add(times(x, kNewton[0]), graph::dot(mix, x));
  }
  return tall ? graph::transpose(x, turn) : x;
}

float muon_scale(const Options& options, double out, double in) {
  if (options.str("muon_scale") == "jordan")
    return static_cast<float>(std::sqrt(std::max(1.0, out / in)));
  return static_cast<float>(0.2 * std::sqrt(std::max(out, in)));
}

ParameterOutputs muon_step(const UpdateContext& context, const ParameterInputs& in) {
  const auto own = static_cast<int64_t>(muon_rest().scalars.size());
  const Value lr = scalar_at(context.scalars, kAdamWLr), mu = scalar_at(context.scalars, own);
  const Value gradient = scaled_gradient(context, in.gradient);
  const Value momentum = graph::add(graph::multiply(in.state[0], mu), gradient);
  Value direction = momentum;
  if (context.options.boolean("muon_nesterov"))
    direction = graph::add(gradient, graph::multiply(momentum, mu));
  // Each logical tensor of a stack is made orthogonal by itself; experts have their own axis.
  std::vector<Value> parts;
  const int64_t rows = direction.rank() - 2, in_size = direction.dim(rows + 1);
  const bool whole = in.layout->element.rank() > 2 || in.layout->pieces.size() == 1;
  int64_t begin = 0;
  for (const model::ParamPiece& piece : in.layout->pieces) {
    const int64_t end = whole ? direction.dim(rows) : begin + piece.rows;
    const Value made = orthogonal(graph::slice_axis(direction, rows, begin, end));
    const float scale =
        muon_scale(context.options, static_cast<double>(end - begin), static_cast<double>(in_size));
    parts.push_back(graph::multiply(made, graph::scalar(context.graph, scale)));
    begin = end;
    if (whole) break;
  }
  direction = parts.size() == 1 ? parts[0] : graph::concat(parts, rows);
  if (in.decay) {
    direction = graph::add(
        direction, graph::multiply(in.parameter, scalar_at(context.scalars, kAdamWWeightDecay)));
  }
  return {graph::subtract(in.parameter, graph::multiply(direction, lr)), {momentum}};
}

std::vector<ParameterOutputs> muon_graph(const UpdateContext& context,
                                         std::span<const ParameterInputs> parameters) {
  const auto own = static_cast<int64_t>(muon_rest().scalars.size());
  const UpdateContext rest{context.graph, context.options,
                           graph::slice_axis(context.scalars, 0, 0, own), context.gradient_scale};
  std::vector<ParameterOutputs> made;
  for (const ParameterInputs& in : parameters) {
    made.push_back(is_layer_matrix(*in.layout) ? muon_step(context, in)
                                               : muon_rest().update(rest, {&in, 1})[0]);
  }
  return made;
}

} // namespace

Optimizer muon() {
  Optimizer made = {
      .name = "muon",
      .options =
          {
              option_f64("muon_momentum", 0.95, 0.0, 0.999999,
                         "Muon's share of the last momentum."),
              option_bool("muon_nesterov", true, "Muon looks ahead along the momentum (Nesterov)."),
              option_choice("muon_scale", "adamw", {"adamw", "jordan"},
                            "Size of Muon's step: adamw 0.2 sqrt(max(out, in)), jordan "
                            "sqrt(max(1, out / in))."),
          },
      .scalars = muon_scalar_names(),
      .whole_matrices = true,
      .is_own = is_layer_matrix,
      .state = muon_state,
      .step_scalars = muon_scalars,
      .update = muon_graph,
  };
  for (const OptionSpec& row : muon_rest().options) made.options.push_back(row);
  return made;
}

} // namespace dllm::train::optimizer_files

// AdamW (Loshchilov & Hutter 2019, algorithm 2). m and v are running means of the gradient and of
// its square:
//   m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
//   p <- p - lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p).

#include "graph/ops.h"
#include "train/optimizers/table.h"

#include <cmath>

namespace dllm::train::optimizer_files {
namespace {

std::vector<StateArray> adamw_state(const Options&, const model::ParamSpec& parameter) {
  return {{"first", like_parameter(parameter)}, {"second", like_parameter(parameter)}};
}

std::vector<double> adamw_scalars(const Options& options, const UpdateInfo& info) {
  const double beta1 = options.f64("beta1"), beta2 = options.f64("beta2");
  const auto t = static_cast<double>(info.number);
  return {info.lr,
          beta1,
          beta2,
          options.f64("eps"),
          info.weight_decay,
          1.0 - std::pow(beta1, t),
          1.0 - std::pow(beta2, t)};
}

// Updates a parameter with one operation, which reads and writes each array once.
std::vector<ParameterOutputs> adamw_graph(const UpdateContext& context,
                                          std::span<const ParameterInputs> parameters) {
  const graph::Value scalars =
      graph::concat({context.scalars, graph::reshape(context.gradient_scale, {1})}, 0); // (8)
  std::vector<ParameterOutputs> made;
  for (const ParameterInputs& in : parameters) {
    const graph::AdamW next =
        graph::adamw_update(in.parameter, in.gradient, in.state[0], in.state[1], scalars, in.decay);
    made.push_back({next.parameter, {next.first, next.second}});
  }
  return made;
}

} // namespace

Optimizer adamw() {
  return {
      .name = "adamw",
      .options =
          {
              option_f64("beta1", 0.9, 0.0, 0.999999, "AdamW's decay of the first moment."),
              option_f64("beta2", 0.95, 0.0, 0.999999, "AdamW's decay of the second moment."),
              option_f64("eps", 1e-8, 1e-20, 1.0, "AdamW's epsilon, outside the root."),
          },
      // The scalars are in the order of graph::adamw_update.
      .scalars =
          {
              {"lr", 0.0f},
              {"beta1", 1.0f},
              {"beta2", 1.0f},
              {"eps", 1.0f},
              {"weight_decay", 0.0f},
              {"correction1", 1.0f},
              {"correction2", 1.0f},
          },
      .state = adamw_state,
      .step_scalars = adamw_scalars,
      .update = adamw_graph,
  };
}

} // namespace dllm::train::optimizer_files

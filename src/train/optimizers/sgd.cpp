// Stochastic gradient descent with momentum mu (Polyak 1964), optionally in Nesterov's form (1983),
// and with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 1):
//   m <- mu m + g,  d = m, or g + mu m (Nesterov),  p <- p - lr (d + weight_decay p).
// Without momentum d = g, and no array is kept.

#include "base/error.h"
#include "graph/ops.h"
#include "train/optimizers/table.h"

namespace dllm::train::optimizer_files {
namespace {

enum SgdScalar { kSgdLr, kSgdMomentum, kSgdWeightDecay };

void check_sgd(const Options& options) {
  if (!options.boolean("nesterov") || options.f64("momentum") > 0) return;
  fail_with_hint("set momentum = 0.9", Code::invalid_argument, "nesterov needs a momentum above 0");
}

std::vector<StateArray> sgd_state(const Options& options, const model::ParamSpec& parameter) {
  if (options.f64("momentum") == 0) return {};
  return {{"momentum", like_parameter(parameter)}};
}

std::vector<double> sgd_scalars(const Options& options, const UpdateInfo& info) {
  return {info.lr, options.f64("momentum"), info.weight_decay};
}

std::vector<ParameterOutputs> sgd_graph(const UpdateContext& context,
                                        std::span<const ParameterInputs> parameters) {
  const graph::Value lr = scalar_at(context.scalars, kSgdLr),
                     mu = scalar_at(context.scalars, kSgdMomentum);
  const graph::Value weight_decay = scalar_at(context.scalars, kSgdWeightDecay);
  std::vector<ParameterOutputs> made;
  for (const ParameterInputs& in : parameters) {
    const graph::Value gradient = scaled_gradient(context, in.gradient);
    ParameterOutputs next;
    graph::Value direction = gradient;
    if (!in.state.empty()) {
      const graph::Value momentum = graph::add(graph::multiply(in.state[0], mu), gradient);
      next.state.push_back(momentum);
      const bool nesterov = context.options.boolean("nesterov");
      direction = nesterov ? graph::add(gradient, graph::multiply(momentum, mu)) : momentum;
    }
    if (in.decay) direction = graph::add(direction, graph::multiply(in.parameter, weight_decay));
    next.parameter = graph::subtract(in.parameter, graph::multiply(direction, lr));
    made.push_back(std::move(next));
  }
  return made;
}

} // namespace

Optimizer sgd() {
  return {
      .name = "sgd",
      .options =
          {
              option_f64("momentum", 0.0, 0.0, 0.999999,
                         "SGD's share of the last step's direction; 0: no direction is kept."),
              option_bool("nesterov", false, "SGD looks ahead along the momentum (Nesterov)."),
          },
      .scalars =
          {
              {"lr", 0.0f},
              {"momentum", 1.0f},
              {"weight_decay", 0.0f},
          },
      .check = check_sgd,
      .state = sgd_state,
      .step_scalars = sgd_scalars,
      .update = sgd_graph,
  };
}

} // namespace dllm::train::optimizer_files

#include "train/update.h"

#include "base/error.h"
#include "graph/ops.h"

namespace dllm::train {

using graph::Value;

int64_t scalar_count(const Optimizer& optimizer) {
  return static_cast<int64_t>(optimizer.scalars.size()) + kSharedScalarCount;
}

Value shared_scalar(const Optimizer& optimizer, Value scalars, SharedScalar which) {
  return scalar_at(scalars, static_cast<int64_t>(optimizer.scalars.size()) + which);
}

Value at_least_one(Value count) { return graph::maximum(count, graph::scalar(*count.graph, 1.0f)); }

namespace {

// 2-norm of all gradients together.
Value global_norm(graph::Graph& graph, const std::vector<ParameterInputs>& parameters) {
  Value squares = graph::scalar(graph, 0.0f);
  for (const ParameterInputs& in : parameters) squares = graph::add(squares, graph::sum_of_squares(in.gradient));
  return graph::sqrt(squares);
}

// Those of an update that changes nothing.
Tensor neutral_scalars(const Optimizer& optimizer) {
  std::vector<float> neutral;
  for (const StepScalar& scalar : optimizer.scalars) neutral.push_back(scalar.neutral);
  const auto count = static_cast<int64_t>(neutral.size());
  return Tensor::from(Shape{count}, neutral);
}

}  // namespace

// An update that is not finite runs with neutral scalars and gradient scale 0, which makes every array its own
// successor: leaving it out costs no second copy of the state.
Updated clipped_update(graph::Graph& graph, const Optimizer& optimizer, const Options& options,
                       const UpdateValues& update) {
  const Value one = graph::scalar(graph, 1.0f), zero = graph::scalar(graph, 0.0f);
  const Value count = at_least_one(update.normalizer);
  Updated next;
  next.norm = graph::divide(global_norm(graph, update.parameters), count);
  next.finite = graph::logical_and(graph::is_finite(next.norm), graph::is_finite(update.loss_sum));
  if (update.halted.defined()) next.finite = graph::logical_and(next.finite, graph::equal(update.halted, zero));

  const Value clip = shared_scalar(optimizer, update.scalars, kClip);
  const Value shrink = graph::select(graph::greater(next.norm, clip), graph::divide(clip, next.norm), one);
  const Value scale = graph::select(next.finite, graph::divide(shrink, count), zero);
  const auto own = static_cast<int64_t>(optimizer.scalars.size());
  const Value given = graph::slice_axis(update.scalars, 0, 0, own);
  const Value used = graph::select(next.finite, given, graph::constant(graph, neutral_scalars(optimizer)));
  next.parameters = optimizer.update({graph, options, used, scale}, update.parameters);
  if (next.parameters.size() != update.parameters.size()) {
    fail(Code::internal, "optimizer {} updates {} of {} parameters", optimizer.name, next.parameters.size(),
         update.parameters.size());
  }

  const Value decay = graph::select(next.finite, shared_scalar(optimizer, update.scalars, kEmaDecay), one);
  for (size_t i = 0; i < update.averages.size(); ++i) {
    const Value fresh = graph::multiply(next.parameters[i].parameter, graph::subtract(one, decay));
    next.averages.push_back(graph::add(graph::multiply(update.averages[i], decay), fresh));
  }
  return next;
}

}  // namespace dllm::train

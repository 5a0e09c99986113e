#include "train/optimizer.h"

#include "graph/ops.h"

namespace dllm::train {

using graph::Value;

Value scalar_at(Value scalars, int index) {
  return graph::reshape(graph::slice_axis(scalars, 0, index, index + 1), {});
}

Value at_least_one(Value count) {
  return graph::maximum(count, graph::scalar(*count.graph, 1.0f));
}

namespace {

// 2-norm of all gradients together.
Value global_norm(graph::Graph& graph, const std::vector<Value>& gradients) {
  Value squares = graph::scalar(graph, 0.0f);
  for (const Value& gradient : gradients)
    squares = graph::add(squares, graph::sum_of_squares(gradient));
  return graph::sqrt(squares);
}

} // namespace

// A step that is not finite runs with rate 0, decay 0, betas 1 and gradient scale 0, which makes
// every array its own successor: leaving an update out costs no second copy of the state.
Updated clipped_adamw(graph::Graph& graph, const UpdateValues& update) {
  const Value one = graph::scalar(graph, 1.0f), zero = graph::scalar(graph, 0.0f);
  const Value count = at_least_one(update.normalizer);
  Updated next;
  next.norm = graph::divide(global_norm(graph, update.gradients), count);
  next.finite = graph::logical_and(graph::is_finite(next.norm), graph::is_finite(update.loss_sum));
  if (update.halted.defined())
    next.finite = graph::logical_and(next.finite, graph::equal(update.halted, zero));

  const Value clip = scalar_at(update.scalars, kClip);
  const Value shrink =
      graph::select(graph::greater(next.norm, clip), graph::divide(clip, next.norm), one);
  const Value scale = graph::select(next.finite, graph::divide(shrink, count), zero);
  const Value given = graph::slice_axis(update.scalars, 0, kLr, kBias2 + 1); // (7)
  const std::vector<float> still = {0, 1, 1, 1, 0, 1, 1}; // lr b1 b2 eps wd bias1 bias2
  const Value used =
      graph::select(next.finite, given, graph::constant(graph, Tensor::from(Shape{7}, still)));
  const Value scalars = graph::concat({used, graph::reshape(scale, {1})}, 0); // (8)

  for (size_t i = 0; i < update.params.size(); ++i) {
    const graph::AdamW moved =
        graph::adamw_update(update.params[i], update.gradients[i], update.first[i],
                            update.second[i], scalars, update.decay[i]);
    next.params.push_back(moved.parameter);
    next.first.push_back(moved.first);
    next.second.push_back(moved.second);
  }
  const Value decay = graph::select(next.finite, scalar_at(update.scalars, kEmaDecay), one);
  for (size_t i = 0; i < update.ema.size(); ++i) {
    const Value fresh = graph::multiply(next.params[i], graph::subtract(one, decay));
    next.ema.push_back(graph::add(graph::multiply(update.ema[i], decay), fresh));
  }
  return next;
}

} // namespace dllm::train

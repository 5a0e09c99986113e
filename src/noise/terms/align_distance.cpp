#include "noise/terms/align_distance.h"

#include "graph/ops.h"

namespace dllm::noise {
namespace {

using graph::Value;

constexpr float kSmallestNorm = 1e-8f;
constexpr float kLargestCosine = 1.0f - 1e-6f;

Value number(Value like, float x) {
  return graph::scalar(*like.graph, x);
}

// Returns the vectors of the last axis, each divided by its length.
Value unit(Value x) {
  const int64_t last = x.rank() - 1;
  const Value squares = graph::sum(graph::multiply(x, x), {last}, true);
  const Value length =
      graph::sqrt(graph::maximum(squares, number(x, kSmallestNorm * kSmallestNorm)));
  return graph::divide(x, length);
}

// Returns the cosines of the vectors of the last axis.
Value cosines(Value x, Value y) {
  return graph::sum(graph::multiply(unit(x), unit(y)), {x.rank() - 1});
}

struct Sizes {
  int64_t batch, positions, hidden;
};

Sizes sizes_of(const AlignStates& states) {
  const int64_t batch = states.layers.dim(0);
  return {batch, states.student[0].dim(0) / batch, states.student[0].dim(1)};
}

// Returns the weights of one layer, f32(batch, 1).
Value layer_weight(const AlignStates& states, size_t layer) {
  const auto at = static_cast<int64_t>(layer);
  return graph::slice_axis(states.layers, 1, at, at + 1);
}

// Returns f32(batch, units): what the kind compares in one layer.
Value layer_distance(const AlignDistance& distance, const AlignStates& states, size_t layer) {
  const Sizes sizes = sizes_of(states);
  const auto rows = [&](Value x) {
    const Value own = graph::reshape(x, {sizes.batch, sizes.positions, sizes.hidden});
    return distance.kind == AlignKind::blocks ? graph::dot(states.blocks, own) : own;
  };
  const Value cosine = cosines(rows(states.student[layer]), rows(states.teacher[layer]));
  if (distance.kind != AlignKind::angular) return graph::subtract(number(cosine, 1), cosine);
  const Value inside =
      graph::clamp(number(cosine, -kLargestCosine), cosine, number(cosine, kLargestCosine));
  const Value apart =
      graph::subtract(arccos(inside), number(cosine, static_cast<float>(distance.margin)));
  return graph::maximum(apart, number(cosine, 0));
}

// Returns the weighted mean over layers of unit vectors as unit vectors (batch, positions, hidden).
Value mean_direction(const AlignStates& states, const std::vector<Value>& layers) {
  const Sizes sizes = sizes_of(states);
  Value sum;
  for (size_t a = 0; a < layers.size(); ++a) {
    const Value weight = graph::reshape(layer_weight(states, a), {sizes.batch, 1, 1});
    const Value own = unit(graph::reshape(layers[a], {sizes.batch, sizes.positions, sizes.hidden}));
    const Value part = graph::multiply(own, weight);
    sum = sum.defined() ? graph::add(sum, part) : part;
  }
  return unit(sum);
}

// Returns f32(batch, positions): -log of the share of a position's own teacher state.
Value contrast(const AlignDistance& distance, const AlignStates& states) {
  const Sizes sizes = sizes_of(states);
  const Value student = mean_direction(states, states.student),
              teacher = mean_direction(states, states.teacher);
  const Value scale = number(student, static_cast<float>(1.0 / distance.temperature));
  const Value near =
      graph::multiply(graph::dot(student, graph::transpose(teacher, {0, 2, 1})), scale);
  const Shape square{sizes.batch, sizes.positions, sizes.positions};
  const Value in_use = graph::greater(states.weights, number(student, 0)); // (batch, positions)
  const Value keys =
      graph::broadcast(graph::reshape(in_use, {sizes.batch, 1, sizes.positions}), square);
  const Value among = graph::select(keys, near, graph::full(*student.graph, square, -1e30f));
  const Value own = graph::multiply(graph::sum(graph::multiply(student, teacher), {2}), scale);
  return graph::subtract(graph::log_sum_exp(among, 2), own);
}

} // namespace

Value arccos(Value x) {
  // M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 4.4.46, for |x|.
  constexpr float kTerms[] = {-0.0012624911f, 0.0066700901f, -0.0170881256f, 0.0308918810f,
                              -0.0501743046f, 0.0889789874f, -0.2145988016f, 1.5707963050f};
  const Value size = graph::absolute(x);
  Value sum = number(x, kTerms[0]);
  for (size_t i = 1; i < std::size(kTerms); ++i)
    sum = graph::add(graph::multiply(sum, size), number(x, kTerms[i]));
  const Value one = number(x, 1);
  const Value near = graph::multiply(graph::sqrt(graph::subtract(one, size)), sum);
  const Value value = graph::select(graph::less(x, number(x, 0)),
                                    graph::subtract(number(x, 3.14159265f), near), near);
  const Value fixed = graph::stop_gradient(x);
  const Value slope = graph::negate(graph::rsqrt(
      graph::maximum(graph::subtract(one, graph::multiply(fixed, fixed)), number(x, 1e-12f))));
  return graph::add(graph::stop_gradient(value), graph::multiply(graph::subtract(x, fixed), slope));
}

Value align_distance(const AlignDistance& distance, const AlignStates& states) {
  Value apart;
  if (distance.kind == AlignKind::infonce) {
    apart = contrast(distance, states);
  } else {
    for (size_t a = 0; a < states.student.size(); ++a) {
      const Value part =
          graph::multiply(layer_distance(distance, states, a), layer_weight(states, a));
      apart = apart.defined() ? graph::add(apart, part) : part;
    }
  }
  // A position that is not in use has the weight 0.
  return graph::sum(graph::multiply(apart, states.weights), {0, 1});
}

} // namespace dllm::noise

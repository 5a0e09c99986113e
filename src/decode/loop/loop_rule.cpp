#include "decode/loop/loop_rule.h"

#include "graph/ops.h"

#include <limits>

namespace dllm::decode {

using graph::Graph;
using graph::Value;

LoopOrder order_of(Value scores, Value among, bool largest_first) {
  Graph& graph = *scores.graph;
  const int64_t rows = scores.dim(0), block = scores.dim(1);
  const float last = std::numeric_limits<float>::max();
  const Value hidden = graph::scalar(graph, largest_first ? -last : last);
  const Value at = graph::sort(graph::select(among, scores, hidden), largest_first).indices;
  // The inverse of every row's permutation, rows one after the other.
  const Shape both{rows, block}, flat{rows * block};
  const Value first = graph::multiply(graph::iota(graph, both, DType::i32, 0),
                                      graph::scalar_i32(graph, static_cast<int32_t>(block)));
  const Value place = graph::iota(graph, both, DType::i32, 1);
  const Value rank =
      graph::scatter_set(graph::reshape(place, flat), graph::reshape(graph::add(at, first), flat),
                         graph::reshape(place, flat));
  return {at, graph::reshape(rank, both)};
}

Value per_row(Value x) {
  return graph::reshape(x, Shape{x.dim(0), 1});
}

Value any_of(Value x) {
  return graph::greater(graph::max(graph::convert(x, DType::i32), {1}),
                        graph::scalar_i32(*x.graph, 0));
}

Value without(Value x, Value y) {
  return graph::logical_and(x, graph::logical_not(y));
}

Value first_of(const LoopOrder& order, Value count, Value among) {
  return graph::logical_and(graph::less(order.rank, per_row(count)), among);
}

} // namespace dllm::decode

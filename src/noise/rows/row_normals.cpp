#include "noise/rows/row_normals.h"

#include "graph/ops.h"

#include <cmath>
#include <vector>

namespace dllm::noise {

Tensor row_keys(uint64_t seed, int64_t step, int64_t first, int64_t rows, uint32_t use) {
  Tensor keys(DType::u32, {rows, 2});
  const auto words = keys.mutable_as<uint32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    const Key of_row = stream_key(seed, Stream::mask, static_cast<uint64_t>(step),
                                  static_cast<uint64_t>(first + row));
    const Key key = fold_in(of_row, use);
    words[static_cast<size_t>(2 * row)] = key.hi;
    words[static_cast<size_t>(2 * row + 1)] = key.lo;
  }
  return keys;
}

graph::Value row_normals(graph::Value keys, const Shape& shape, uint32_t use) {
  graph::Graph& graph = *keys.graph;
  const std::vector<uint32_t> word = {use, 0};
  const graph::Value own =
      graph::logical_xor(keys, graph::constant(graph, Tensor::from(Shape{1, 2}, word)));
  // Uniform numbers are multiples of 2^-23, and the half of a step keeps both ends away.
  const graph::Value uniform =
      graph::add(graph::random_uniform(own, shape), graph::scalar(graph, std::ldexp(1.0f, -24)));
  const graph::Value both = graph::subtract(graph::multiply(uniform, graph::scalar(graph, 2.0f)),
                                            graph::scalar(graph, 1.0f));
  return graph::multiply(graph::erf_inv(both), graph::scalar(graph, std::sqrt(2.0f)));
}

} // namespace dllm::noise

#include "model/network/sinusoid.h"

#include "graph/ops.h"

#include <cmath>
#include <vector>

namespace dllm::model {

graph::Value sinusoid(graph::Value numbers, int64_t size) {
  const int64_t half = size / 2;
  Tensor frequencies(DType::f32, {1, half});
  for (int64_t k = 0; k < half; ++k) {
    frequencies.mutable_as<float>()[static_cast<size_t>(k)] = static_cast<float>(
        std::exp(-std::log(10000.0) * static_cast<double>(k) / static_cast<double>(half)));
  }
  graph::Graph& graph = *numbers.graph;
  const graph::Value angle = graph::multiply(numbers, graph::constant(graph, frequencies));
  std::vector<graph::Value> parts = {graph::sin(angle), graph::cos(angle)};
  if (size % 2 != 0) parts.push_back(graph::full(graph, {numbers.dim(0), 1}, 0.0f));
  return graph::concat(parts, 1);
}

} // namespace dllm::model

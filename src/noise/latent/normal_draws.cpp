#include "noise/latent/normal_draws.h"

#include "graph/ops.h"

#include <cmath>

namespace dllm::noise {

graph::Value normal_draws(graph::Value keys, const Shape& shape) {
  graph::Graph& graph = *keys.graph;
  // Uniform numbers are multiples of 2^-23, and the half of a step keeps both ends away.
  const graph::Value uniform =
      graph::add(graph::random_uniform(keys, shape), graph::scalar(graph, std::ldexp(1.0f, -24)));
  const graph::Value both = graph::subtract(graph::multiply(uniform, graph::scalar(graph, 2.0f)),
                                            graph::scalar(graph, 1.0f));
  return graph::multiply(graph::erf_inv(both), graph::scalar(graph, std::sqrt(2.0f)));
}

} // namespace dllm::noise

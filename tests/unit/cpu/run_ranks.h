#pragma once
// Runs one graph on several ranks of this process.

#include "unit/cpu/run_graph.h"
#include "unit/thread_ranks.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace dllm::cpu {

using Tensors = std::vector<Tensor>;

// Compiles and runs `graph` on every rank; returns the results by rank.
inline std::vector<Tensors> run_on_ranks(test::RankThreads& ranks, const graph::Mesh& mesh,
                                         const std::shared_ptr<const graph::Graph>& graph,
                                         const std::vector<Tensors>& inputs) {
  std::vector<Tensors> results(inputs.size());
  const auto errors = ranks.run([&](int64_t rank) {
    auto& engine = ranks.engine(rank);
    const auto program = engine.compile(graph, graph::Placement{mesh, rank});
    const auto at = static_cast<size_t>(rank);
    results[at] = read_all(program->run(upload_all(engine, inputs[at])));
  });
  for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
  return results;
}

inline graph::Mesh mesh_of(graph::Axis axis, int64_t ranks) {
  return graph::Mesh().set(axis, ranks);
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  const Tensor x = a.to(DType::f64), y = b.to(DType::f64);
  for (size_t i = 0; i < x.as<double>().size(); ++i)
    most = std::max(most, std::abs(x.as<double>()[i] - y.as<double>()[i]));
  return most;
}

} // namespace dllm::cpu

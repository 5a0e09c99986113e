#pragma once
// Graphs as they are and lowered, on the CPU engine: no plugin is needed to check the numbers.

#include "cpu/engine.h"
#include "graph/engine.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "pjrt/lower/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace dllm::pjrt {

inline std::shared_ptr<graph::Engine> cpu_engine() {
  static const std::shared_ptr<graph::Engine> engine = [] {
    Options options(graph::engine_schema());
    options.set_i64("threads", 2);
    return cpu::make_engine(options);
  }();
  return engine;
}

inline std::vector<Tensor> run_on_cpu(std::shared_ptr<const graph::Graph> graph,
                                      const std::vector<Tensor>& inputs) {
  std::vector<graph::BufferRef> buffers;
  for (const Tensor& input : inputs) buffers.push_back(cpu_engine()->upload(input));
  std::vector<Tensor> results;
  for (const auto& buffer : cpu_engine()->compile(std::move(graph))->run(buffers))
    results.push_back(buffer->read());
  return results;
}

// Names of operations that have a definition, bodies included: none may be left.
inline std::string fused_operations(const graph::Graph& graph) {
  std::string names;
  for (const graph::Node& node : graph.nodes()) {
    if (node.op->decompose != nullptr) names += std::string(node.op->name) + " ";
    for (const auto& body : node.bodies) names += fused_operations(*body);
  }
  return names;
}

// Elements of the largest array that a graph computes, bodies included.
inline int64_t largest_value(const graph::Graph& graph) {
  int64_t most = 0;
  for (const graph::Node& node : graph.nodes()) {
    for (int32_t id : node.outputs) most = std::max(most, graph.type(id).shape.count());
    for (const auto& body : node.bodies) most = std::max(most, largest_value(*body));
  }
  return most;
}

// Integers equal; floats within tolerance x (the largest number of the array, and of the element).
inline void expect_close(const Tensor& got, const Tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const Tensor wide_got = got.to(DType::f64), wide_expected = expected.to(DType::f64);
  const auto x = wide_got.as<double>(), y = wide_expected.as<double>();
  double most = 0;
  for (double number : y) most = std::isfinite(number) ? std::max(most, std::fabs(number)) : most;
  const double room = is_float(got.dtype()) ? tolerance * most : 0;
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double off = std::isfinite(x[i] - y[i]) ? std::fabs(x[i] - y[i]) : HUGE_VAL;
    if (off <= worst) continue;
    worst = off;
    at = i;
  }
  EXPECT_LE(worst, room) << what << " element " << at << " is " << x[at] << ", expected " << y[at];
}

inline void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                         double tolerance, const graph::Graph& graph, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    expect_close(got[i], expected[i], tolerance, what + " " + graph.outputs()[i].name);
}

// The graph as it is and lowered give the same.
inline void expect_same_lowered(const std::shared_ptr<graph::Graph>& graph,
                                const std::vector<Tensor>& inputs, double tolerance,
                                const std::string& what) {
  const auto lowered = lower(*graph);
  EXPECT_EQ(fused_operations(*lowered), "") << what;
  expect_close(run_on_cpu(lowered, inputs), run_on_cpu(graph, inputs), tolerance, *graph, what);
}

// With every input varying over the ranks of an axis, results vary as they did before.
inline void expect_axes_kept(const graph::Graph& graph) {
  graph::Graph varying;
  graph::Cloner cloner(graph, varying);
  for (const graph::GraphInput& input : graph.inputs()) {
    graph::ValueType type = graph.type(input.value);
    type.axes = graph::AxisSet(graph::Axis::data);
    cloner.map(input.value, varying.input(input.name, type));
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n) cloner.node(static_cast<int32_t>(n));
  cloner.outputs();
  const auto lowered = lower(varying);
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    EXPECT_EQ(lowered->type(lowered->outputs()[i].value), varying.type(varying.outputs()[i].value))
        << graph.outputs()[i].name;
  }
}

// A loss over the given outputs, with weights that differ, and its gradients as more outputs.
inline void add_gradients(graph::Graph& graph, const std::vector<size_t>& wrt,
                          const std::vector<size_t>& outputs) {
  graph::Value loss = graph::scalar(graph, 0);
  for (size_t i : outputs) {
    const graph::Value y = graph.value(graph.outputs()[i].value);
    Tensor weights(DType::f32, y.shape());
    auto numbers = weights.mutable_as<float>();
    for (size_t e = 0; e < numbers.size(); ++e)
      numbers[e] = 0.25f * static_cast<float>((e * 7 + i * 3) % 11) - 1.0f;
    std::vector<int64_t> axes;
    for (int64_t a = 0; a < y.rank(); ++a) axes.push_back(a);
    loss = add(loss, sum(multiply(y, constant(graph, weights)), axes));
  }
  std::vector<graph::Value> inputs;
  for (size_t i : wrt) inputs.push_back(graph.value(graph.inputs()[i].value));
  const auto grads = gradients(loss, inputs);
  for (size_t i = 0; i < grads.size(); ++i) graph.output("grad " + std::to_string(i), grads[i]);
}

} // namespace dllm::pjrt

// Every operation, and its gradient, lowered and written, through a plugin's compiler against the
// f64 oracle. Cases are joined into a few large programs: a process and a compilation for each
// would take minutes.

#include "graph/ops.h"
#include "graph/passes.h"
#include "pjrt/lower/lower.h"
#include "unit/graph/expect_near.h"
#include "unit/graph/op_cases.h"
#include "unit/graph/reference_evaluator.h"
#include "unit/pjrt/emit/run_emitted.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace dllm::pjrt {
namespace {

using graph::Graph;
using graph::Value;
using graph::test::OpCase;

constexpr size_t kBatches = 6; // case i goes to batch i % kBatches

// Outputs of the case and, where it has any, the gradients of a weighted sum of them.
void add_gradients(OpCase& c) {
  if (c.op == "while" || c.wrt.empty() || c.grad_outputs.empty()) return;
  Graph& graph = *c.graph;
  Value loss = graph::scalar(graph, 0);
  for (size_t i : c.grad_outputs) {
    const Value y = graph.value(graph.outputs()[i].value);
    Tensor weights(DType::f32, y.shape());
    auto values = weights.mutable_as<float>();
    for (size_t e = 0; e < values.size(); ++e)
      values[e] = 0.25f * static_cast<float>((e * 7 + i * 3) % 11) - 1.0f;
    std::vector<int64_t> axes;
    for (int64_t a = 0; a < y.rank(); ++a) axes.push_back(a);
    loss = add(loss, sum(multiply(y, constant(graph, weights)), axes));
  }
  std::vector<Value> wrt;
  for (size_t i : c.wrt) wrt.push_back(graph.value(graph.inputs()[i].value));
  const auto grads = gradients(loss, wrt);
  for (size_t i = 0; i < grads.size(); ++i) graph.output("grad " + std::to_string(i), grads[i]);
}

// Many cases in one graph; names carry the label of their case.
struct Batch {
  Graph graph{"cases"};
  std::vector<Tensor> inputs, expected;

  void add(const OpCase& c, const std::string& prefix) {
    graph::Cloner cloner(*c.graph, graph);
    for (const auto& input : c.graph->inputs())
      cloner.map(input.value, graph.input(prefix + input.name, c.graph->type(input.value)));
    for (size_t n = 0; n < c.graph->nodes().size(); ++n) cloner.node(static_cast<int32_t>(n));
    for (const auto& output : c.graph->outputs())
      graph.output(prefix + output.name, cloner.at(output.value));
    inputs.insert(inputs.end(), c.inputs.begin(), c.inputs.end());
    for (Tensor& y : graph::test::evaluate(*c.graph, c.inputs)) expected.push_back(std::move(y));
  }
};

class EmitOps : public OnPlugins {
protected:
  void check(size_t batch) {
    Batch all;
    const size_t count = graph::test::op_cases().size();
    for (size_t i = batch; i < count; i += kBatches) {
      OpCase c = std::move(graph::test::op_cases()[i]);
      add_gradients(c);
      all.add(c, std::to_string(i) + " " + c.label + " ");
    }
    // Half of the time is machine code: the compiler may make it plainly.
    const std::vector<std::pair<std::string, FlagValue>> flags = {
        parse_flag("xla_backend_optimization_level=0")};
    const auto got = run_emitted(client(), *lower(all.graph), all.inputs, {}, flags);
    ASSERT_EQ(got.size(), all.expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      graph::test::expect_near(got[i], all.expected[i], all.graph.outputs()[i].name);
  }
};

TEST_P(EmitOps, Batch0EqualsTheOracle) {
  check(0);
}
TEST_P(EmitOps, Batch1EqualsTheOracle) {
  check(1);
}
TEST_P(EmitOps, Batch2EqualsTheOracle) {
  check(2);
}
TEST_P(EmitOps, Batch3EqualsTheOracle) {
  check(3);
}
TEST_P(EmitOps, Batch4EqualsTheOracle) {
  check(4);
}
TEST_P(EmitOps, Batch5EqualsTheOracle) {
  check(5);
}

DLLM_ON_PLUGINS(EmitOps);

} // namespace
} // namespace dllm::pjrt

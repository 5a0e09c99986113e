// Every operation, and its gradient, through the engine: against the f64 oracle, and the same bits
// for any number of threads and every instruction set.

#include "cpu/kernel.h"
#include "cpu/plan.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"
#include "unit/cpu/run_graph.h"
#include "unit/graph/expect_near.h"
#include "unit/graph/op_cases.h"
#include "unit/graph/reference_evaluator.h"

#include <cmath>
#include <cstring>
#include <set>

namespace dllm::cpu {
namespace {

using graph::test::OpCase;

TEST(Registry, EveryOperationRunsHere) {
  const std::set<std::string_view> planned{"constant", "scan", "while"}; // by plan.cpp itself
  for (const graph::OpDef* op : graph::all_ops()) {
    const bool runs = find_kernel(op->name) != nullptr || op->decompose != nullptr ||
                      planned.count(op->name) == 1;
    EXPECT_TRUE(runs) << op->name << " has neither kernel nor definition";
  }
}

// The results of a case and, where it has any, the gradients of a weighted sum of them.
OpCase with_gradients(OpCase c) {
  if (c.op == "while" || c.wrt.empty() || c.grad_outputs.empty()) return c;
  graph::Graph& graph = *c.graph;
  graph::Value loss = graph::scalar(graph, 0);
  for (size_t i : c.grad_outputs) {
    const graph::Value y = graph.value(graph.outputs()[i].value);
    Tensor weights(DType::f32, y.shape());
    for (size_t e = 0; e < weights.mutable_as<float>().size(); ++e) {
      weights.mutable_as<float>()[e] = 0.25f * static_cast<float>((e * 7 + i * 3) % 11) - 1.0f;
    }
    std::vector<int64_t> axes;
    for (int64_t a = 0; a < y.rank(); ++a) axes.push_back(a);
    loss = add(loss, sum(multiply(y, constant(graph, weights)), axes));
  }
  std::vector<graph::Value> wrt;
  for (size_t i : c.wrt) wrt.push_back(graph.value(graph.inputs()[i].value));
  const auto grads = gradients(loss, wrt);
  for (size_t i = 0; i < grads.size(); ++i) graph.output("grad " + std::to_string(i), grads[i]);
  return c;
}

class EveryCase : public testing::TestWithParam<size_t> {
public:
  static const std::vector<OpCase>& cases() {
    static const std::vector<OpCase> all = graph::test::op_cases();
    return all;
  }
  static OpCase fresh() { return with_gradients(std::move(graph::test::op_cases()[GetParam()])); }
};

TEST_P(EveryCase, EqualsTheOracle) {
  const OpCase c = fresh();
  const std::vector<Tensor> expected = graph::test::evaluate(*c.graph, c.inputs);
  const std::vector<Tensor> got = run_graph(*test_engine(2), c.graph, c.inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    graph::test::expect_near(got[i], expected[i], c.label + " " + c.graph->outputs()[i].name);
}

TEST_P(EveryCase, HasTheSameBitsEverywhere) {
  const OpCase c = fresh();
  const std::vector<Tensor> first = run_graph(*test_engine(1), c.graph, c.inputs);
  for_each_simd_target([&](const char* target) {
    for (int64_t threads : {1, 2, 4}) {
      EXPECT_TRUE(same_bits(run_graph(*test_engine(threads), c.graph, c.inputs), first))
          << c.label << " on " << target << " with " << threads << " threads";
    }
  });
}

std::string case_name(const testing::TestParamInfo<size_t>& info) {
  std::string name = EveryCase::cases()[info.param].label;
  for (char& ch : name) {
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryCase, testing::Range(size_t{0}, EveryCase::cases().size()),
                         case_name);

} // namespace
} // namespace dllm::cpu

// Every case of every operation, and its gradient, lowered: against the oracle of the graph.

#include "unit/graph/op_cases.h"
#include "unit/graph/reference_evaluator.h"
#include "unit/pjrt/lower/lower_tools.h"

#include <algorithm>
#include <string_view>

namespace dllm::pjrt {
namespace {

using graph::test::OpCase;

class EveryLoweredCase : public testing::TestWithParam<size_t> {
public:
  static const std::vector<OpCase>& cases() {
    static const std::vector<OpCase> all = graph::test::op_cases();
    return all;
  }
};

TEST_P(EveryLoweredCase, EqualsTheOracle) {
  const OpCase c = std::move(graph::test::op_cases()[GetParam()]);
  if (c.op != "while" && !c.wrt.empty() && !c.grad_outputs.empty())
    add_gradients(*c.graph, c.wrt, c.grad_outputs);
  const std::vector<Tensor> expected = graph::test::evaluate(*c.graph, c.inputs);
  const auto lowered = lower(*c.graph);
  EXPECT_EQ(fused_operations(*lowered), "");
  const double tolerance = c.op == "convert" ? 4e-3 : 2e-5; // bf16 results are rounded to 8 bits
  expect_close(run_on_cpu(lowered, c.inputs), expected, tolerance, *c.graph, c.label);
}

// The inputs of a ring are made to vary over its axis in the case itself.
bool makes_values_vary(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const graph::Node& node) {
    return std::string_view(node.op->name) == "vary";
  });
}

TEST(LowerOps, AxesAreKept) {
  for (const OpCase& c : EveryLoweredCase::cases()) {
    SCOPED_TRACE(c.label);
    if (graph::find_op(c.op).decompose != nullptr && !makes_values_vary(*c.graph))
      expect_axes_kept(*c.graph);
  }
}

std::string case_name(const testing::TestParamInfo<size_t>& info) {
  std::string name = EveryLoweredCase::cases()[info.param].label;
  for (char& ch : name) {
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryLoweredCase,
                         testing::Range(size_t{0}, EveryLoweredCase::cases().size()), case_name);

} // namespace
} // namespace dllm::pjrt

// Every operation has every face: a case, a reference, a gradient or a declared stop; and each
// gradient is the slope.

#include "base/error.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "unit/graph/op_cases.h"
#include "unit/graph/reference_evaluator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace dllm::graph::test {
namespace {

TEST(Registry, SortedByNameWithoutDoubles) {
  std::set<std::string> names;
  std::string last;
  for (const OpDef* op : all_ops()) {
    EXPECT_LT(last, op->name);
    last = op->name;
    EXPECT_TRUE(names.insert(op->name).second);
    EXPECT_EQ(&find_op(op->name), op);
  }
}

TEST(Registry, EveryOperationHasEveryFace) {
  // Loops decided by data: asking for their gradient is an error that says so (gradients_test.cpp).
  const std::set<std::string> without_gradient{"while"};
  std::set<std::string> covered;
  for (const OpCase& c : op_cases()) covered.insert(c.op);
  for (const OpDef* op : all_ops()) {
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_TRUE(covered.count(op->name)) << op->name << " has no case in op_cases.cpp";
    EXPECT_TRUE(has_reference(op->name)) << op->name << " has no reference";
    const bool answers = op->vjp != nullptr || op->stops_gradient || op->decompose != nullptr;
    EXPECT_NE(answers, without_gradient.count(op->name) == 1)
        << op->name << " has neither gradient nor stop";
  }
}

TEST(Registry, UnknownNameIsAnErrorWithTheNearest) {
  try {
    find_op("rms_nrom");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::not_found);
    EXPECT_NE(e.hint().find("rms_norm"), std::string::npos);
  }
}

class EveryCase : public testing::TestWithParam<size_t> {
public:
  static const std::vector<OpCase>& cases() {
    static const std::vector<OpCase> all = op_cases();
    return all;
  }
};

// Weights of the outputs in the loss: distinct, fixed, and the same in f32 and f64.
Tensor weights_of(const Shape& shape, size_t output) {
  Tensor weights(DType::f32, shape);
  auto values = weights.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.25f * static_cast<float>((i * 7 + output * 3) % 11) - 1.0f;
  }
  return weights;
}

// A copy of the case's graph that ends in one loss.
struct LossGraph {
  std::shared_ptr<Graph> graph;
  Value loss;
  std::vector<Value> wrt;
};

LossGraph loss_of(const OpCase& c) {
  Graph& graph = *c.graph;
  Value loss = scalar(graph, 0);
  for (size_t i : c.grad_outputs) {
    const Value y = graph.value(graph.outputs()[i].value);
    std::vector<int64_t> axes;
    for (int64_t a = 0; a < y.rank(); ++a) axes.push_back(a);
    loss = add(loss, sum(multiply(y, constant(graph, weights_of(y.shape(), i))), axes));
  }
  std::vector<Value> wrt;
  for (size_t i : c.wrt) wrt.push_back(graph.value(graph.inputs()[i].value));
  return {c.graph, loss, wrt};
}

TEST_P(EveryCase, GradientIsTheSlope) {
  OpCase c = std::move(op_cases()[GetParam()]); // a fresh graph: the loss is added to it
  if (c.op == "while" || c.wrt.empty() || c.grad_outputs.empty())
    GTEST_SKIP() << "nothing to differentiate";
  const LossGraph made = loss_of(c);
  const std::vector<Value> grads = gradients(made.loss, made.wrt);
  made.graph->output("loss", made.loss);
  for (size_t i = 0; i < grads.size(); ++i)
    made.graph->output("grad " + std::to_string(i), grads[i]);

  std::vector<Tensor> inputs;
  for (const Tensor& x : c.inputs)
    inputs.push_back(is_float(x.dtype()) ? x.to(DType::f64).clone() : x);
  const std::vector<Tensor> all = evaluate(*simplify(*made.graph), inputs); // as an engine would
  const size_t first = all.size() - grads.size();

  OpCase forward = std::move(op_cases()[GetParam()]);
  const LossGraph plain = loss_of(forward);
  const auto loss_at = [&](const std::vector<Tensor>& x) {
    return evaluate(*plain.graph, x).back().as<double>()[0];
  };
  plain.graph->output("loss", plain.loss);

  const double step = 1e-5;
  for (size_t w = 0; w < c.wrt.size(); ++w) {
    const size_t input = c.wrt[w];
    const auto grad = all[first + w].as<double>();
    const size_t stride =
        std::max<size_t>(1, grad.size() / 24); // at most some two dozen slopes of one input
    for (size_t e = 0; e < grad.size(); e += stride) {
      auto values = inputs[input].mutable_as<double>();
      const double x = values[e];
      values[e] = x + step;
      const double above = loss_at(inputs);
      values[e] = x - step;
      const double below = loss_at(inputs);
      values[e] = x;
      const double slope = (above - below) / (2 * step);
      EXPECT_NEAR(grad[e], slope, 2e-6 * (1 + std::abs(slope)))
          << c.label << " input " << input << " element " << e;
    }
  }
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
} // namespace dllm::graph::test

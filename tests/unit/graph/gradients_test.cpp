// What gradients are made of: zeros, stops, errors, and what a scan keeps for its backward pass.

#include "base/error.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"
#include "unit/graph/reference_evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace dllm::graph {
namespace {

Error error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::ok, "no error");
}

size_t count_ops(const Graph& graph, std::string_view op) {
  size_t count = 0;
  for (const Node& node : graph.nodes()) {
    count += node.op->name == op;
    for (const auto& body : node.bodies) count += count_ops(*body, op);
  }
  return count;
}

std::vector<const Node*> scans_of(const Graph& graph) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes()) {
    if (std::string_view(node.op->name) == "scan") found.push_back(&node);
  }
  return found;
}

TEST(Gradients, UnreachedValuesGetZeros) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2}), other = graph.input("other", DType::f32, {3});
  const Value stopped = graph.input("stopped", DType::f32, {2});
  const auto grads = gradients(sum(multiply(x, stop_gradient(stopped)), {0}), {x, other, stopped});
  for (size_t i = 0; i < 3; ++i) graph.output(std::to_string(i), grads[i]);
  const auto out = test::evaluate(graph, {Tensor::from(Shape{2}, std::vector<float>{1, 2}),
                                          Tensor(DType::f32, Shape{3}),
                                          Tensor::from(Shape{2}, std::vector<float>{5, 7})});
  EXPECT_EQ(out[0].as<double>()[1], 7);
  EXPECT_EQ(out[1].as<double>()[2], 0);
  EXPECT_EQ(out[2].as<double>()[1], 0);
}

TEST(Gradients, OneValueUsedOftenAndTwiceInOneNode) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {});
  const Value y = add(multiply(x, x), multiply(multiply(x, x), x)); // x^2 + x^3
  const Value z =
      sum(gated_activation(reshape(x, {1}), reshape(x, {1}), "relu"), {0}); // x^2 for x > 0
  graph.output("dx", gradients(add(y, z), {x})[0]);
  graph.output("ddx", gradients(graph.value(graph.outputs()[0].value),
                                {x})[0]); // through the gradient operation too
  const auto out = test::evaluate(graph, {Tensor::scalar(3.0f)});
  EXPECT_NEAR(out[0].as<double>()[0], 2 * 3 + 3 * 9 + 2 * 3, 1e-9);
  EXPECT_NEAR(out[1].as<double>()[0], 2 + 6 * 3 + 2, 1e-9);
}

// A table used for both ends of a model: one walk over it, not three.
TEST(Gradients, RowsAreScatteredIntoTheSum) {
  Graph graph;
  const Value table = graph.input("table", DType::f32, {5, 3}),
              ids = graph.input("ids", DType::i32, {4});
  const Value y = linear(take(table, ids), table); // (4, 5)
  graph.output("d", gradients(sum(y, {0, 1}), {table})[0], "table");
  const auto small = simplify(graph);
  EXPECT_EQ(count_ops(*small, "scatter_add"), 1u) << small->dump();
  EXPECT_EQ(count_ops(*small, "add"), 0u) << small->dump();
}

TEST(Gradients, ErrorsNameWhatIsWrong) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2}), n = graph.input("n", DType::i32, {2});
  const Value stored = graph.input("stored", DType::bf16, {3, 2});
  EXPECT_EQ(error_of([&] { gradients(x, {x}); }).text(),
            "[gradients] loss is f32(2), expected an f32 scalar");
  EXPECT_EQ(error_of([&] { gradients(sum(x, {0}), {n}); }).text(),
            "[gradients] i32(2) has no gradient, only f32 has");
  EXPECT_EQ(error_of([&] { gradients(sum(linear(x, stored), {0}), {stored}); }).text(),
            "[gradients] bf16(3, 2) has no gradient, only f32 has");
  const Value through =
      gradients(sum(linear(x, stored), {0}), {x})[0]; // a frozen base passes gradients on
  EXPECT_EQ(through.shape(), x.shape());
}

float rounded(float x) {
  return bf16_to_f32(f32_to_bf16(x));
}

// f32 -> bf16 -> f32 and moves of bf16 values in between pass gradients on, each in the type of its
// value.
TEST(Gradients, FlowThroughBf16) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {4}), c = graph.input("c", DType::f32, {2, 4});
  const Value half = convert(x, DType::bf16);
  const Value wide = convert(broadcast(reshape(half, {1, 4}), {2, 4}), DType::f32);
  const Value again = convert(reverse(half, {0}), DType::f32); // a second way: the two are added
  const Value loss = add(sum(multiply(wide, c), {0, 1}), sum(multiply(again, again), {0}));
  graph.output("d", gradients(loss, {x})[0]);
  const std::vector<float> xs = {0.5f, -1.25f, 2.0f, 3.0f};
  const std::vector<float> cs = {1, 2, 3, 4, 0.3f, 0.7f, -5, 6};
  const auto out =
      test::evaluate(graph, {Tensor::from(Shape{4}, xs), Tensor::from(Shape{2, 4}, cs)});
  for (size_t i = 0; i < 4; ++i) {
    const double wanted = cs[i] + cs[4 + i] + 2 * xs[i];
    const double size = std::abs(cs[i]) + std::abs(cs[4 + i]) + std::abs(2 * xs[i]);
    EXPECT_NEAR(out[0].as<double>()[i], wanted, 0.01 * size) << i; // each summand has 8 bits
  }
}

// A master in f32, its product in bf16: the gradient of the weight reaches the master.
TEST(Gradients, ABf16CopyOfAWeightTrainsItsMaster) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {5, 3}), w = graph.input("w", DType::f32, {4, 3});
  const Value ids = graph.input("ids", DType::i32, {5});
  const Value half = convert(w, DType::bf16);
  const Value y = multiply(linear(x, half), take(linear(w, half), ids));
  const Value loss = add(sum(y, {0, 1}), sum(take(half, ids), {0, 1}));
  graph.output("d", gradients(loss, {w})[0]);
  Graph plain;
  const Value px = plain.input("x", DType::f32, {5, 3}), pw = plain.input("w", DType::f32, {4, 3});
  const Value pids = plain.input("ids", DType::i32, {5});
  const Value py = multiply(linear(px, pw), take(linear(pw, pw), pids));
  plain.output("d", gradients(add(sum(py, {0, 1}), sum(take(pw, pids), {0, 1})), {pw})[0]);
  std::vector<float> xs, ws;
  for (int i = 0; i < 15; ++i) xs.push_back(rounded(0.3f * static_cast<float>(i % 7) - 0.8f));
  for (int i = 0; i < 12; ++i) ws.push_back(rounded(0.21f * static_cast<float>(i % 5) - 0.37f));
  const std::vector<Tensor> inputs = {Tensor::from(Shape{5, 3}, xs), Tensor::from(Shape{4, 3}, ws),
                                      Tensor::from(Shape{5}, std::vector<int32_t>{0, 3, 3, 1, 2})};
  const auto got = test::evaluate(graph, inputs), wanted = test::evaluate(plain, inputs);
  double size = 0;
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(got[0].as<double>()[i], wanted[0].as<double>()[i], 0.1) << i;
    size = std::max(size, std::abs(wanted[0].as<double>()[i]));
  }
  EXPECT_GT(size, 1.0);
}

TEST(ScanGradient, FlowsThroughBf16CarriesLayersAndConsts) {
  const auto body = std::make_shared<Graph>("layer");
  const Value c = body->input("h", DType::bf16, {3}), w = body->input("w", DType::bf16, {3});
  const Value s = body->input("scale", DType::bf16, {3});
  const auto wide = [](Value x) { return convert(x, DType::f32); };
  body->output("h", convert(multiply(multiply(wide(c), wide(w)), wide(s)), DType::bf16));
  Graph graph;
  const Value h = graph.input("h", DType::f32, {3}), ws = graph.input("w", DType::f32, {2, 3});
  const Value scale = graph.input("scale", DType::f32, {3});
  const auto half = [](Value x) { return convert(x, DType::bf16); };
  const Value y = scan(body, {half(h)}, {half(ws)}, {half(scale)}, 2, {}).carry[0];
  const auto grads = gradients(sum(wide(y), {0}), {h, ws, scale});
  for (size_t i = 0; i < 3; ++i) graph.output(std::to_string(i), grads[i]);
  const auto out =
      test::evaluate(graph, {Tensor::from(Shape{3}, std::vector<float>{1, 2, 3}),
                             Tensor::from(Shape{2, 3}, std::vector<float>{2, 1, 4, 3, 5, 1}),
                             Tensor::from(Shape{3}, std::vector<float>{1, 2, 1})});
  // y = h w0 w1 s^2
  EXPECT_EQ(out[0].as<double>()[0], 2 * 3);
  EXPECT_EQ(out[1].as<double>()[1], 2 * 5 * 4);
  EXPECT_EQ(out[2].as<double>()[1], 2 * 2 * 1 * 5 * 2);
}

// Zeros would be wrong without a message: an error names the parameter and the conversion.
TEST(Gradients, AConversionToWholeNumbersIsAnError) {
  Graph graph;
  const Value w = graph.input("param:w", DType::f32, {4});
  const Value used = graph.input("used", DType::f32, {4});
  const Value loss = sum(multiply(convert(convert(w, DType::i8), DType::f32), used), {0});
  const Error error = error_of([&] { gradients(loss, {used, w}); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_EQ(error.text(), "[gradients] param:w f32(4) reaches the loss only through [convert] to "
                          "i8(4), which has no gradient");
  gradients(loss, {used});                                // its gradient is not requested
  gradients(add(loss, sum(w, {0})), {used, w});           // there is another way
  EXPECT_EQ(gradients(sum(used, {0}), {w})[0].dim(0), 4); // no way at all: zeros

  const auto body = std::make_shared<Graph>("layer"); // the same inside of a scan
  const Value c = body->input("h", DType::f32, {4}), layer = body->input("w", DType::f32, {4});
  body->output("h", multiply(c, convert(convert(layer, DType::i32), DType::f32)));
  const Value stack = graph.input("param:layers.w", DType::f32, {3, 4});
  const Value y = scan(body, {used}, {stack}, {}, 3, {}).carry[0];
  EXPECT_NE(error_of([&] { gradients(sum(y, {0}), {stack}); }).text().find("param:layers.w"),
            std::string::npos);
}

// Which experts are chosen is a decision: the bias of the choice has no gradient, and no error.
TEST(Gradients, DecisionsAreNoConversions) {
  Graph graph;
  const Value scores = graph.input("scores", DType::f32, {2, 5});
  const Value bias = graph.input("bias", DType::f32, {5});
  const Value chosen = top_k(add(scores, bias), 2).indices;
  const Value share = take_along(scores, chosen, 1);
  const Value mask = convert(greater(bias, scalar(graph, 0.0f)), DType::f32);
  gradients(add(sum(share, {0, 1}), sum(mask, {0})), {scores, bias});
}

TEST(Gradients, MoreElementsThanCanBeNumberedAreAnError) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {16384, 152000});
  const Value ids = graph.input("ids", DType::i32, {16384, 1});
  const Error error = error_of([&] { gradients(sum(take_along(x, ids, 1), {0, 1}), {x}); });
  EXPECT_EQ(error.code(), Code::unimplemented);
  EXPECT_NE(error.text().find("rows of 152000 has 2490368000 places, more than 2147483647"),
            std::string::npos)
      << error.text();
  const Value small = graph.input("small", DType::f32, {14128, 152000}); // the most there can be
  const Value few = graph.input("few", DType::i32, {14128, 1});
  gradients(sum(take_along(small, few, 1), {0, 1}), {small});
}

TEST(Gradients, WhileHasNone) {
  auto cond = std::make_shared<Graph>("cond"), body = std::make_shared<Graph>("halve until small");
  cond->output("go", greater(sum(cond->input("x", DType::f32, {2}), {0}), scalar(*cond, 1)));
  const Value inside = body->input("x", DType::f32, {2});
  body->output("x", multiply(inside, scalar(*body, 0.5f)));
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2});
  const Value y = while_loop(cond, body, {multiply(x, x)})[0];
  const Error error = error_of([&] { gradients(sum(y, {0}), {x}); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_EQ(error.text(), "[while] halve until small has no gradient");
  EXPECT_NE(error.hint().find("scan"), std::string::npos);
  gradients(sum(stop_gradient(y), {0}), {x}); // asked for nothing through it
}

// h' = tanh(h w_i^T), scale is a const.
struct Layers {
  Graph graph;
  Value h, w, scale, loss;
  explicit Layers(bool remat, int64_t recompute = 0, bool round_kept = false) {
    auto body = std::make_shared<Graph>("layer");
    const Value c = body->input("h", DType::f32, {2, 3}),
                layer = body->input("w", DType::f32, {3, 3});
    const Value s = body->input("scale", DType::f32, {3});
    body->output("h", tanh(linear(multiply(c, s), layer)));
    h = graph.input("h", DType::f32, {2, 3});
    w = graph.input("w", DType::f32, {4, 3, 3});
    scale = graph.input("scale", DType::f32, {3});
    const ScanOptions options{0, -1, false, remat, recompute, round_kept};
    loss = sum(scan(body, {h}, {w}, {scale}, 4, options).carry[0], {0, 1});
  }
};

TEST(ScanGradient, KeepsWhatTheBackwardBodyNeedsAndIsNotCheap) {
  Layers made(false);
  const auto grads = gradients(made.loss, {made.h, made.w, made.scale});
  EXPECT_EQ(grads[1].type(), made.w.type());
  EXPECT_EQ(grads[2].type(), made.scale.type());
  const auto scans = scans_of(made.graph);
  ASSERT_EQ(scans.size(), 2u);
  // Kept: h (for the gradient of scale) and tanh (its own slope). h * scale (for the gradient of w)
  // is computed again.
  EXPECT_EQ(scans[0]->outputs.size(), 1u + 2u) << made.graph.dump();
  const Graph& backward = *scans[1]->bodies[0];
  EXPECT_EQ(count_ops(backward, "tanh"), 0u);
  EXPECT_EQ(count_ops(backward, "linear"), 0u);
  EXPECT_EQ(count_ops(backward, "linear_input_grad"), 1u);
  EXPECT_EQ(count_ops(backward, "linear_weight_grad"), 1u);
  const ops::ScanPlan plan(scans[1]->attributes);
  EXPECT_TRUE(plan.reverse);
  EXPECT_EQ(plan.carry, 2u);     // d h, sum of d scale
  EXPECT_EQ(plan.per_layer, 3u); // w and the two kept values
  EXPECT_EQ(plan.consts, 1u);    // scale
}

TEST(ScanGradient, RematKeepsOnlyCarries) {
  Layers made(true);
  gradients(made.loss, {made.h, made.w, made.scale});
  const auto scans = scans_of(made.graph);
  ASSERT_EQ(scans.size(), 2u);
  ASSERT_EQ(scans[0]->outputs.size(), 2u) << made.graph.dump();
  EXPECT_EQ(made.graph.type(scans[0]->outputs[1]).text(), "f32(4, 2, 3)");
  EXPECT_EQ(count_ops(*scans[1]->bodies[0], "tanh"), 1u);
  EXPECT_EQ(count_ops(*scans[1]->bodies[0], "linear"), 1u);
}

TEST(ScanGradient, KeepsRoundedValues) {
  Layers made(false, 0, true);
  const auto grads = gradients(made.loss, {made.h, made.w, made.scale});
  EXPECT_EQ(grads[1].type(), made.w.type());
  const auto scans = scans_of(made.graph);
  ASSERT_EQ(scans.size(), 2u);
  ASSERT_EQ(scans[0]->outputs.size(), 3u) << made.graph.dump();
  EXPECT_EQ(made.graph.type(scans[0]->outputs[0]).text(),
            "f32(2, 3)"); // the forward pass is as it was
  EXPECT_EQ(made.graph.type(scans[0]->outputs[1]).text(), "bf16(4, 2, 3)");
  EXPECT_EQ(made.graph.type(scans[0]->outputs[2]).text(), "bf16(4, 2, 3)");
  EXPECT_EQ(count_ops(*scans[1]->bodies[0], "tanh"), 0u);
}

// Two results of one operation: the second one is a statistic of each row.
TEST(ScanGradient, KeepsStatisticsOfRowsExactly) {
  auto body = std::make_shared<Graph>("layer");
  const Value c = body->input("h", DType::f32, {1, 4, 2, 8});
  body->output("h", attention(c, c, c, Mask{}, {}));
  Graph graph;
  const Value h = graph.input("h", DType::f32, {1, 4, 2, 8});
  const ScanOptions options{0, -1, false, false, 0, true};
  gradients(sum(scan(body, {h}, {}, {}, 3, options).carry[0], {0, 1, 2, 3}), {h});
  const auto scans = scans_of(graph);
  ASSERT_EQ(scans.size(), 2u);
  std::map<std::string, int> kept;
  for (size_t i = 1; i < scans[0]->outputs.size(); ++i)
    ++kept[graph.type(scans[0]->outputs[i]).text()];
  EXPECT_EQ(kept["f32(3, 1, 2, 4)"], 1) << graph.dump(); // logarithms of the sums
  EXPECT_GE(kept["bf16(3, 1, 4, 2, 8)"], 1) << graph.dump();
  EXPECT_EQ(kept["f32(3, 1, 4, 2, 8)"], 0) << graph.dump();
}

// With tanh given up, the product is made again of the carry, which is kept anyway.
TEST(ScanGradient, RecomputesAsManyValuesAsTheAttribute) {
  size_t before = 4; // results of the forward scan
  for (int64_t values = 0; values < 4; ++values) {
    Layers made(false, values);
    gradients(made.loss, {made.h, made.w, made.scale});
    const auto scans = scans_of(made.graph);
    ASSERT_EQ(scans.size(), 2u);
    EXPECT_LE(scans[0]->outputs.size(), before) << made.graph.dump();
    before = scans[0]->outputs.size();
  }
  EXPECT_EQ(before, 2u); // the carry and its stack alone are left
}

TEST(ScanGradient, NothingIsKeptForWhatIsNotAsked) {
  Layers made(false);
  gradients(made.loss, {made.h}); // the layers are frozen: only slopes are needed
  const auto scans = scans_of(made.graph);
  ASSERT_EQ(scans.size(), 2u);
  EXPECT_EQ(scans[0]->outputs.size(), 2u) << made.graph.dump();
  EXPECT_EQ(count_ops(made.graph, "linear_weight_grad"), 0u);
}

TEST(ScanGradient, GatheredWeightsAreGatheredAgainNotKept) {
  const AxisSet fsdp(Axis::fsdp);
  auto body = std::make_shared<Graph>("layer");
  const Value c = body->input("h", {Shape{2, 4}, DType::f32, fsdp});
  const Value w = body->input("w", {Shape{2, 4}, DType::f32, fsdp});
  body->output("h", tanh(linear(c, all_gather(w, Axis::fsdp, 0, 2))));
  Graph graph;
  const Value h = graph.input("h", {Shape{2, 4}, DType::f32, fsdp});
  const Value layers = graph.input("w", {Shape{3, 2, 4}, DType::f32, fsdp});
  const Value out = scan(body, {h}, {layers}, {}, 3).carry[0];
  const auto grads = gradients(all_reduce(sum(out, {0, 1}), fsdp), {layers});
  EXPECT_EQ(grads[0].type(), layers.type());
  const auto scans = scans_of(graph);
  for (int32_t id : scans[0]->outputs)
    EXPECT_NE(graph.type(id).shape, (Shape{3, 4, 4})) << graph.dump();
  EXPECT_EQ(count_ops(*scans[1]->bodies[0], "all_gather"), 1u);
  EXPECT_EQ(count_ops(*scans[1]->bodies[0], "reduce_scatter"), 1u);
}

TEST(ScanGradient, SecondGradientCallWorks) {
  Layers made(false);
  const Value first = gradients(made.loss, {made.w})[0];
  const Value second = gradients(made.loss, {made.w})[0];
  made.graph.output("difference", subtract(first, second));
  std::vector<float> numbers(36, 0.3f);
  const auto out =
      test::evaluate(made.graph, {Tensor::from(Shape{2, 3}, std::vector<float>(6, 0.5f)),
                                  Tensor::from(Shape{4, 3, 3}, numbers),
                                  Tensor::from(Shape{3}, std::vector<float>(3, 1.5f))});
  for (double d : out[0].as<double>()) EXPECT_EQ(d, 0);
}

// d |d loss / d h|^2 / d w, against the slope along one direction.
TEST(ScanGradient, GradientOfAGradient) {
  for (bool remat : {false, true}) {
    Layers made(remat);
    const Value dh = gradients(made.loss, {made.h})[0];
    const Value norm = sum(multiply(dh, dh), {0, 1});
    made.graph.output("norm", norm);
    made.graph.output("dw", gradients(norm, {made.w})[0]);
    Tensor h(DType::f64, Shape{2, 3}), w(DType::f64, Shape{4, 3, 3}), scale(DType::f64, Shape{3});
    for (Tensor* x : {&h, &w, &scale}) {
      auto values = x->mutable_as<double>();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = std::sin(1.0 + 2.3 * static_cast<double>(i));
    }
    const auto norm_along = [&](double step) {
      Tensor moved = w.clone();
      auto values = moved.mutable_as<double>();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] += step * std::cos(static_cast<double>(i));
      return test::evaluate(made.graph, {h, moved, scale});
    };
    const auto at = norm_along(0);
    double along = 0;
    for (size_t i = 0; i < 36; ++i)
      along += at[1].as<double>()[i] * std::cos(static_cast<double>(i));
    const double slope =
        (norm_along(1e-5)[0].as<double>()[0] - norm_along(-1e-5)[0].as<double>()[0]) / 2e-5;
    EXPECT_NEAR(along, slope, 1e-6 * (1 + std::abs(slope))) << "remat " << remat;
    EXPECT_GT(std::abs(slope), 1e-3);
  }
}

TEST(Gradients, SameGraphTwice) {
  const auto text = [] {
    Layers made(false);
    const auto grads = gradients(made.loss, {made.h, made.w, made.scale});
    for (size_t i = 0; i < grads.size(); ++i) made.graph.output(std::to_string(i), grads[i]);
    return made.graph.dump();
  };
  EXPECT_EQ(text(), text());
}

} // namespace
} // namespace dllm::graph

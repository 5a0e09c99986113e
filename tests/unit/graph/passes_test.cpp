#include "graph/passes.h"

#include "graph/op.h"
#include "graph/ops.h"
#include "graph/ops/scan.h"
#include "unit/graph/op_cases.h"
#include "unit/graph/reference_evaluator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace dllm::graph {
namespace {

size_t count_ops(const Graph& graph, std::string_view op) {
  size_t count = 0;
  for (const Node& node : graph.nodes()) {
    count += op.empty() || node.op->name == op;
    for (const auto& body : node.bodies) count += count_ops(*body, op);
  }
  return count;
}

TEST(Passes, DeadCodeGoesInputsStay) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2}),
              unused = graph.input("unused", DType::f32, {2});
  exp(unused);
  graph.output("y", tanh(x), "x");
  const auto made = remove_dead_code(graph);
  EXPECT_EQ(count_ops(*made, ""), 1u);
  EXPECT_EQ(made->inputs().size(), 2u);
  EXPECT_EQ(made->outputs()[0].donated_input, 0);
}

TEST(Passes, DeadPartsOfAScanGo) {
  auto body = std::make_shared<Graph>("layer");
  const Value used = body->input("used", DType::f32, {2}),
              idle = body->input("idle", DType::f32, {2});
  const Value a = body->input("a", DType::f32, {2}), b = body->input("b", DType::f32, {2}),
              k = body->input("k", DType::f32, {});
  body->output("used", multiply(used, a));
  body->output("idle", add(idle, multiply(b, k)));
  body->output("trace", exp(idle));
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2}),
              layers = graph.input("layers", DType::f32, {3, 2});
  const ScanResult made = scan(body, {x, x}, {layers, layers}, {scalar(graph, 2)}, 3);
  graph.output("y", made.carry[0]);
  const auto small = remove_dead_code(graph);
  ASSERT_EQ(small->nodes().size(), 1u) << small->dump();
  const ops::ScanPlan plan(small->nodes()[0].attributes);
  EXPECT_EQ(plan.carry, 1u);
  EXPECT_EQ(plan.per_layer, 1u);
  EXPECT_EQ(plan.consts, 0u);
  EXPECT_EQ(count_ops(*small, "exp"), 0u);
  // A carry that is no result stays when a live result reads it.
  graph.output("trace", made.stacked[0]);
  EXPECT_EQ(ops::ScanPlan(remove_dead_code(graph)->nodes().back().attributes).carry, 2u);
}

TEST(Passes, CommonNodesMergeInBodiesToo) {
  const auto twice = [](Value x) { return add(exp(x), exp(x)); };
  auto body = std::make_shared<Graph>("layer");
  body->output("x", twice(body->input("x", DType::f32, {2})));
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2});
  graph.output("y", add(twice(x), scan(body, {x}, {}, {}, 3).carry[0]));
  graph.output("z", scan(body, {x}, {}, {}, 3).carry[0]);
  graph.output("kept apart", add(barrier(x), barrier(x)));
  const auto made = merge_common_nodes(graph);
  EXPECT_EQ(count_ops(*made, "exp"), 2u); // one outside, one in the one scan
  EXPECT_EQ(count_ops(*made, "scan"), 1u);
  EXPECT_EQ(count_ops(*made, "barrier"), 2u);
}

TEST(Passes, DifferentLiteralsAndAttributesStayApart) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2, 2});
  graph.output("y", add(sum(x, {0}), sum(x, {1})));
  graph.output("z", add(scalar(graph, 1), scalar(graph, 2)));
  const auto made = merge_common_nodes(graph);
  EXPECT_EQ(count_ops(*made, "sum"), 2u);
  EXPECT_EQ(count_ops(*made, "constant"), 2u);
}

TEST(Passes, ConstantsFoldExactly) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {3});
  const Value two = full(graph, {3}, 2), half = full(graph, {3}, 0.5f);
  graph.output("same", multiply(x, multiply(two, half))); // x * 1
  graph.output("sum", add(multiply(two, two), full(graph, {3}, 0.1f)));
  graph.output("whole", divide(scalar_i32(graph, -7), scalar_i32(graph, 2)));
  graph.output("truth", less(scalar(graph, 1), scalar(graph, 2)));
  const auto made = simplify(graph);
  EXPECT_EQ(made->outputs()[0].value, made->inputs()[0].value) << made->dump();
  for (const char* op : {"multiply", "add", "divide", "less"})
    EXPECT_EQ(count_ops(*made, op), 0u) << made->dump();
  const auto out = test::evaluate(*made, {Tensor(DType::f32, Shape{3})});
  EXPECT_EQ(static_cast<float>(out[1].as<double>()[0]), 4.0f + 0.1f);
  EXPECT_EQ(out[2].as<int32_t>()[0], -3);
  EXPECT_EQ(out[3].as<uint8_t>()[0], 1);
}

// The gradient of what is cut into slices, of which each part may be wanted.
std::shared_ptr<Graph> gradient_of_slices(const std::vector<std::pair<int64_t, int64_t>>& cuts) {
  auto body = std::make_shared<Graph>("layer");
  const Value h = body->input("h", DType::f32, {2, 6});
  Value total = multiply(h, scalar(*body, 0.0f));
  for (const auto& [begin, end] : cuts) {
    const Value part = slice(h, {0, begin}, {2, end});
    total = add(total, broadcast(sum(multiply(part, part), {0, 1}), {2, 6}));
  }
  body->output("h", total);
  auto graph = std::make_shared<Graph>();
  const Value x = graph->input("x", DType::f32, {2, 6});
  const Value loss = sum(scan(body, {x}, {}, {}, 2).carry[0], {0, 1});
  graph->output("dx", gradients(loss, {x})[0]);
  return simplify(*graph);
}

TEST(Passes, PadsThatFillTheirSumAreJoined) {
  std::vector<float> numbers;
  for (int i = 0; i < 12; ++i) numbers.push_back(0.1f * static_cast<float>(i) - 0.4f);
  const Tensor x = Tensor::from({2, 6}, numbers);
  const auto pads = [](const Graph& graph) { return count_ops(graph, "pad"); };
  const auto whole = gradient_of_slices({{0, 2}, {5, 6}, {2, 5}});
  const auto joined = join_pads(whole);
  EXPECT_EQ(pads(*whole), 3u);
  EXPECT_EQ(pads(*joined), 0u) << joined->dump();
  EXPECT_EQ(count_ops(*joined, "concat"), 1u);
  const Tensor exact = test::evaluate(*whole, {x})[0], made = test::evaluate(*joined, {x})[0];
  EXPECT_EQ(std::memcmp(exact.bytes(), made.bytes(), static_cast<size_t>(exact.byte_size())), 0);
  // A gap, an overlap, an end that is missing: the sum stays.
  for (const auto& cuts : {std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {3, 6}},
                           {{0, 4}, {3, 6}},
                           {{0, 2}, {2, 5}}}) {
    const auto graph = gradient_of_slices(cuts);
    EXPECT_EQ(pads(*graph), cuts.size());
    EXPECT_EQ(join_pads(graph), graph);
  }
}

TEST(Passes, DecomposeLeavesNoFusedOperation) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2, 3}), w = graph.input("w", DType::f32, {3, 3});
  graph.output("y", rms_norm(linear(x, w), {}, 1e-5f));
  EXPECT_EQ(count_ops(*decompose(graph), "linear"), 0u);
  const std::vector<std::string> except{"linear"};
  const auto kept = decompose(graph, except);
  EXPECT_EQ(count_ops(*kept, "linear"), 1u);
  EXPECT_EQ(count_ops(*kept, "rms_norm"), 0u);
}

TEST(Passes, FlopsMultiplyScansOut) {
  auto body = std::make_shared<Graph>("layer");
  const Value x = body->input("x", DType::f32, {5, 4}), w = body->input("w", DType::f32, {4, 4});
  body->output("x", linear(x, w));
  Graph graph;
  const Value y = scan(body, {graph.input("x", DType::f32, {5, 4})},
                       {graph.input("w", DType::f32, {3, 4, 4})}, {}, 3)
                      .carry[0];
  graph.output("y", y);
  EXPECT_EQ(count_flops(graph), 3.0 * 2 * 5 * 4 * 4);
  const Value q = reshape(y, {1, 5, 1, 4});
  attention(q, q, q, {}, {});
  EXPECT_EQ(count_flops(graph), 3.0 * 2 * 5 * 4 * 4 + 2.0 * 5 * 5 * (4 + 4));
}

// Two layers, each gathers a weight of 8 rows over 2 ranks of fsdp and adds over 4 of tensor.
TEST(Passes, CountExchangesOfARank) {
  const AxisSet fsdp(Axis::fsdp), tensor(Axis::tensor), both = fsdp.with(tensor);
  const Mesh mesh = Mesh::parse("fsdp=2,tensor=4");
  auto body = std::make_shared<Graph>("layer");
  const Value x = body->input("x", {Shape{6, 4}, DType::f32, both});
  const Value w = body->input("w", {Shape{4, 4}, DType::bf16, both});
  const Value whole = all_gather(w, Axis::fsdp, 0, 2);
  const Value part = linear(x, convert(slice_axis(whole, 0, 0, 4), DType::f32));
  body->output("x", vary(all_reduce(part, tensor), tensor));
  Graph graph;
  const Value y = scan(body, {graph.input("x", {Shape{6, 4}, DType::f32, both})},
                       {graph.input("w", {Shape{2, 4, 4}, DType::bf16, both})}, {}, 2)
                      .carry[0];
  graph.output("y", reduce_scatter(y, Axis::fsdp, 0, 2));
  graph.output("expert", all_reduce_max(vary(y, AxisSet(Axis::expert)), AxisSet(Axis::expert)));
  const auto found = count_exchanges(graph, mesh);
  ASSERT_EQ(found.size(), 3u); // the axis of one rank exchanges nothing
  EXPECT_EQ(found.at("all_gather").calls, 2);
  EXPECT_EQ(found.at("all_gather").bytes, 2 * 4 * 4 * 2);
  EXPECT_EQ(found.at("all_reduce").calls, 2);
  EXPECT_EQ(found.at("all_reduce").bytes, 2 * 2 * 6 * 4 * 4 * 3 / 4);
  EXPECT_EQ(found.at("reduce_scatter").calls, 1);
  EXPECT_EQ(found.at("reduce_scatter").bytes, 6 * 4 * 4 / 2);
  EXPECT_TRUE(count_exchanges(graph, Mesh()).empty());
}

// No pass changes a single number of any operation, or of its gradient.
class PassCase : public testing::TestWithParam<size_t> {};

TEST_P(PassCase, PassesKeepNumbers) {
  test::OpCase c = std::move(test::op_cases()[GetParam()]);
  const auto wanted = test::evaluate(*c.graph, c.inputs);
  const auto made = simplify(*c.graph);
  EXPECT_LE(count_ops(*made, ""), count_ops(*c.graph, ""));
  const auto got = test::evaluate(*made, c.inputs);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), wanted[i].shape());
    EXPECT_EQ(
        std::memcmp(got[i].bytes(), wanted[i].bytes(), static_cast<size_t>(got[i].byte_size())), 0)
        << c.label << " output " << i << "\n"
        << made->dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, PassCase, testing::Range(size_t{0}, test::op_cases().size()));

} // namespace
} // namespace dllm::graph

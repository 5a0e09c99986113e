// The text itself, of small graphs: what a reader would expect, byte for byte.

#include "graph/ops.h"
#include "pjrt/plugin/client.h"
#include "unit/pjrt/emit/run_emitted.h"

#include <gtest/gtest.h>

namespace dllm::pjrt {
namespace {

using graph::Axis;
using graph::AxisSet;
using graph::Graph;
using graph::Value;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Files of tests/data/stablehlo.
void expect_text(const std::string& name, const std::string& text) {
  EXPECT_EQ(text, read_text(test::data_path("stablehlo/" + name + ".mlir")));
}

TEST(EmitText, ProductAndDonation) {
  Graph graph("step 1");
  const Value x = graph.input("x", DType::f32, {2, 3}), w = graph.input("w", DType::f32, {4, 3});
  const Value s = graph.input("s", DType::f32, {2, 4});
  graph.output("y", dot(x, transpose(w, {1, 0})));
  graph.output("s", add(s, graph::scalar(graph, 1)), "s");
  // The transposed weight is read where it stands; what is unused is left to the compiler.
  expect_text("product", emit(graph, {}));
}

TEST(EmitText, Loop) {
  auto body = std::make_shared<Graph>("layer");
  const Value h = body->input("h", DType::f32, {3}), w = body->input("w", DType::f32, {3});
  body->output("h", multiply(h, w));
  Graph graph("layers");
  const Value x = graph.input("x", DType::f32, {3}), all = graph.input("w", DType::f32, {5, 3});
  graph.output("h", graph::scan(body, {x}, {all}, {}, 5, {1, 4, true, false}).carry[0]);
  expect_text("layers", emit(graph, {}));
}

TEST(EmitText, TruthValuesStayBits) {
  Graph graph("mask");
  const Value x = graph.input("x", DType::f32, {3});
  const Value m = logical_and(graph::is_finite(x), less(x, graph::scalar(graph, 2)));
  graph.output("y", select(m, x, graph::scalar(graph, 0)));
  const std::string text = emit(graph, {});
  EXPECT_EQ(count(text, "ui8"), 0u) << text;
  EXPECT_EQ(count(text, "stablehlo.and"), 1u);
}

TEST(EmitText, RoundedProductsReadWhatIsRoundedAlready) {
  Graph graph("linear");
  const Value x = graph.input("x", DType::f32, {2, 3}), w = graph.input("w", DType::bf16, {4, 3});
  graph.output("y", dot(x, transpose(convert(w, DType::f32), {1, 0})));
  EmitOptions options;
  options.compute = DType::bf16;
  expect_text("rounded", emit(graph, options));
  options = {};
  options.precision = "default";
  EXPECT_EQ(count(emit(graph, options), "precision DEFAULT"), 2u);
}

TEST(EmitText, CollectivesNameGroupsAndNoChannel) {
  const AxisSet data(Axis::data), tensor(Axis::tensor);
  Graph graph("mesh");
  const Value x = graph.input("x", {Shape{4, 4}, DType::f32, data.with(tensor)});
  graph.output("all", all_reduce(x, data.with(tensor)));
  graph.output("rows", all_gather(x, Axis::data, 0, 4));
  graph.output("part", reduce_scatter(x, Axis::tensor, 1, 2));
  graph.output("swap", all_to_all(x, Axis::data, 0, 1, 4));
  graph.output("ring", permute(x, Axis::tensor, {1, 0}));
  graph.output("rank", graph::axis_index(graph, Axis::data));
  EmitOptions options;
  options.mesh.set(Axis::data, 4).set(Axis::tensor, 2);
  expect_text("mesh", emit(graph, options));
  EXPECT_EQ(count(emit(graph, options), "channel"), 0u);
  options.mesh.set(Axis::data, 2);
  test::expect_error(Code::invalid_argument,
                     "[all_gather] is for 4 ranks along data, the mesh has 2",
                     [&] { emit(graph, options); });
}

// One loop whatever the number of layers: text does not grow with depth.
TEST(EmitText, DepthCostsNothing) {
  const auto text = [](int64_t layers) {
    auto body = std::make_shared<Graph>("layer");
    const Value h = body->input("h", DType::f32, {2, 8}), w = body->input("w", DType::f32, {8, 8});
    body->output("h", tanh(dot(h, w)));
    Graph graph("deep");
    const Value x = graph.input("x", DType::f32, {2, 8}),
                all = graph.input("w", DType::f32, {layers, 8, 8});
    const Value y = graph::scan(body, {x}, {all}, {}, layers).carry[0];
    graph.output("dw", gradients(sum(y, {0, 1}), {all})[0]);
    return emit(*plain(graph), {});
  };
  EXPECT_LT(text(64).size(), text(4).size() + 100);
  EXPECT_EQ(count(text(64), "stablehlo.while"), 2u);
}

TEST(EmitText, LargeConstantsAreHexAndEqualOnesOneNumber) {
  Graph graph("numbers");
  graph.output(
      "a", graph::constant(graph, Tensor::from(Shape{2, 2}, std::vector<int32_t>{1, 2, -1, 256})));
  graph.output("b", graph::constant(graph, Tensor::from(Shape{3}, std::vector<float>{1, 1, 1})));
  graph.output("c", graph::constant(graph, Tensor::scalar(-0.0f)));
  graph.output("d", graph::constant(graph, Tensor::from(Shape{2}, std::vector<int8_t>{-3, -3})));
  const std::string text = emit(graph, {});
  EXPECT_EQ(count(text, "dense<\"0x0100000002000000FFFFFFFF00010000\"> : tensor<2x2xi32>"), 1u)
      << text;
  EXPECT_EQ(count(text, "dense<0x3F800000> : tensor<3xf32>"), 1u);
  EXPECT_EQ(count(text, "dense<0x80000000> : tensor<f32>"), 1u);
  EXPECT_EQ(count(text, "dense<-3> : tensor<2xi8>"), 1u);
}

using EmitTextFiles = OnPlugins;

TEST_P(EmitTextFiles, Compile) {
  for (const char* name : {"product", "layers", "rounded", "mesh"}) {
    CompileOptions options;
    options.replicas = std::string_view(name) == "mesh" ? 8 : 1;
    const std::string text = read_text(test::data_path(std::string("stablehlo/") + name + ".mlir"));
    EXPECT_NO_THROW(client(8)->compile(text, options)) << name;
  }
}

// A flag we need that a compiler does not know is left out; one of the user's is an error.
TEST_P(EmitTextFiles, UnknownFlags) {
  const std::string text = read_text(test::data_path("stablehlo/product.mlir"));
  CompileOptions options;
  options.flags = needed_flags("cpu");
  EXPECT_EQ(options.flags.size(), 1u);
  options.flags.push_back(parse_flag("xla_gone=true"));
  const auto made = client();
  EXPECT_NE(compile_text(*made, text, options, {parse_flag("xla_gone=true")}), nullptr);
  test::expect_error(Code::invalid_argument, "xla_gone",
                     [&] { compile_text(*made, text, options, needed_flags("cpu")); });
  EXPECT_TRUE(needed_flags("tpu").empty());
}

DLLM_ON_PLUGINS(EmitTextFiles);

} // namespace
} // namespace dllm::pjrt

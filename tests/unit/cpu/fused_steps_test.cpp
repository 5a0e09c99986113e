// Elementwise steps that run as one give the bits of the same steps one by one, and need less
// memory.

#include "cpu/fused_steps.h"

#include "graph/ops.h"
#include "unit/cpu/run_graph.h"

#include <cmath>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

constexpr int64_t kRows = 37, kWide = 1000; // not a number of whole tiles

// gelu and its gradient, as the layers of GPT-2 have them, around a product: two results of one
// group.
std::shared_ptr<Graph> gelu_graph() {
  auto made = std::make_shared<Graph>("gelu");
  const auto scalar = [&](float x) { return graph::scalar(*made, x); };
  const Value x = made->input("x", DType::f32, {kRows, kWide});
  const Value dy = made->input("dy", DType::f32, {kRows, kWide});
  const Value w = made->input("w", DType::f32, {8, kWide});
  const Value inner =
      multiply(add(x, multiply(multiply(multiply(x, x), x), scalar(0.0447f))), scalar(0.797f));
  const Value t = tanh(inner), half = multiply(x, scalar(0.5f));
  const Value y = multiply(half, add(t, scalar(1.0f)));
  made->output("product", linear(y, w));
  const Value slope = subtract(scalar(1.0f), multiply(t, t));
  made->output("dx", multiply(dy, add(multiply(half, slope), maximum(t, negate(x)))));
  made->output("sum", sum(divide(exp(t), add(y, scalar(9.0f))), {0, 1}));
  return made;
}

std::vector<Tensor> gelu_inputs() {
  std::vector<Tensor> made;
  for (const Shape& shape : {Shape{kRows, kWide}, Shape{kRows, kWide}, Shape{8, kWide}}) {
    Tensor x(DType::f32, shape);
    auto values = x.mutable_as<float>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 3 * std::sin(0.37f * static_cast<float>(i + made.size()));
    made.push_back(x);
  }
  return made;
}

TEST(FusedSteps, GiveTheBitsOfTheStepsAlone) {
  const auto alone = test_engine(1, "finite"); // looks at every result: nothing is joined
  const auto expected = run_graph(*alone, gelu_graph(), gelu_inputs());
  for (const int64_t threads : {1, 2, 3}) {
    const auto made = run_graph(*test_engine(threads), gelu_graph(), gelu_inputs());
    for (size_t o = 0; o < expected.size(); ++o)
      EXPECT_EQ(floats(made[o]), floats(expected[o])) << o << " with threads " << threads;
  }
}

TEST(FusedSteps, NeedNoPlaceForWhatTheyHandOn) {
  constexpr int64_t kArray = kRows * kWide * 4;
  const int64_t joined = test_engine()->compile(gelu_graph())->plan().arena_bytes;
  const int64_t alone = test_engine(1, "finite")->compile(gelu_graph())->plan().arena_bytes;
  EXPECT_GE(alone, 3 * kArray);
  // y, what the sum reads, and tiles: of each of 10 chunks at most 8.
  EXPECT_LE(joined, 2 * kArray + 10 * 8 * 16384 + 65536) << alone;
}

TEST(FusedSteps, NameTheOperationThatIsNotFinite) {
  auto graph = std::make_shared<Graph>("overflow");
  const Value x = graph->input("x", DType::f32, {40000});
  graph->output("y", multiply(exp(add(x, x)), graph::scalar(*graph, 0.5f)));
  const auto engine = test_engine();
  const auto program = engine->compile(graph);
  Tensor numbers(DType::f32, {40000});
  numbers.mutable_as<float>()[20000] = 99;
  const std::string found = program->find_non_finite(upload_all(*engine, {numbers}));
  EXPECT_NE(found.find("[exp]"), std::string::npos) << found;
  EXPECT_NE(found.find("element 20000"), std::string::npos) << found;
}

// An input that is written over, and one of which a later step reads the old numbers.
TEST(FusedSteps, WriteOverInputsThatAreGivenAway) {
  auto graph = std::make_shared<Graph>("update");
  const Value p = graph->input("p", DType::f32, {40000}),
              g = graph->input("g", DType::f32, {40000});
  const Value next = subtract(p, multiply(add(g, p), graph::scalar(*graph, 0.1f)));
  graph->output("p", next, "p");
  graph->output("moved", sum(multiply(subtract(next, p), g), {0}));
  Tensor a(DType::f32, {40000}), b(DType::f32, {40000});
  for (size_t i = 0; i < 40000; ++i) {
    a.mutable_as<float>()[i] = std::cos(static_cast<float>(i));
    b.mutable_as<float>()[i] = std::sin(static_cast<float>(i));
  }
  const auto made = run_graph(*test_engine(2), graph, {a, b});
  const auto expected = run_graph(*test_engine(1, "finite"), graph, {a, b});
  EXPECT_EQ(floats(made[0]), floats(expected[0]));
  EXPECT_EQ(floats(made[1]), floats(expected[1]));
}

} // namespace
} // namespace dllm::cpu

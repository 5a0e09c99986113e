// main's arguments and results: outputs that are inputs, one value twice, donation, loops that do
// not turn, arrays without elements.

#include "graph/ops.h"
#include "unit/pjrt/emit/run_emitted.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::pjrt {
namespace {

using graph::Graph;
using graph::Value;

Tensor numbers(Shape shape, float first = 0) {
  Tensor made(DType::f32, std::move(shape));
  for (float& x : made.mutable_as<float>()) x = first++;
  return made;
}

std::vector<float> floats(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

using EmitInterface = OnPlugins;

TEST_P(EmitInterface, OutputsMayBeInputsAndRepeat) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {3}), y = graph.input("y", DType::u8, {3});
  graph.input("unused", DType::f32, {2});
  const Value z = add(x, x);
  graph.output("x", x);
  graph.output("z", z);
  graph.output("again", z);
  graph.output("y", y);
  graph.output("x again", x);
  const Tensor bytes = Tensor::from(Shape{3}, std::vector<uint8_t>{0, 1, 255});
  const auto got = run_emitted(client(), graph, {numbers({3}, 1), bytes, numbers({2})});
  for (const size_t i : {0, 4}) EXPECT_EQ(floats(got[i]), (std::vector<float>{1, 2, 3}));
  for (const size_t i : {1, 2}) EXPECT_EQ(floats(got[i]), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(got[3].as<uint8_t>()[2], 255);
}

// Every way an output can take over an input: changed, as it is, and crosswise.
TEST_P(EmitInterface, DonatedInputsMayBeAnything) {
  Graph graph;
  const Value a = graph.input("a", DType::f32, {64}), b = graph.input("b", DType::f32, {64});
  const Value c = graph.input("c", DType::f32, {64}), d = graph.input("d", DType::f32, {64});
  graph.output("a", b, "a");
  graph.output("b", a, "b");
  graph.output("c", c, "c");
  graph.output("d", add(d, c), "d");
  const auto made = client();
  CompileOptions options;
  const auto program = made->compile(emit(graph, {}), options);
  EXPECT_GE(program->compiled().memory()->aliased, 4 * 256);
  const auto got = run_emitted(
      made, graph, {numbers({64}, 1), numbers({64}, 2), numbers({64}, 3), numbers({64}, 4)});
  EXPECT_EQ(floats(got[0])[0], 2);
  EXPECT_EQ(floats(got[1])[0], 1);
  EXPECT_EQ(floats(got[2])[0], 3);
  EXPECT_EQ(floats(got[3])[0], 7);
}

// A cache of many rows, written in place by a loop that is donated to: nothing is copied.
TEST_P(EmitInterface, StateIsUpdatedInPlace) {
  auto cond = std::make_shared<Graph>("more"), body = std::make_shared<Graph>("step");
  for (Graph* graph : {cond.get(), body.get()}) {
    const Value n = graph->input("n", DType::i32, {}),
                cache = graph->input("cache", DType::f32, {4096, 16});
    const Value rows = graph->input("rows", DType::f32, {2, 16});
    if (graph == cond.get()) {
      graph->output("go", less(n, graph::scalar_i32(*graph, 5)));
    } else {
      const Value at =
          graph::concat({reshape(n, {1}), reshape(add(n, graph::scalar_i32(*graph, 7)), {1})}, 0);
      graph->output("n", add(n, graph::scalar_i32(*graph, 1)));
      graph->output("cache", graph::scatter_set(cache, at, rows));
    }
  }
  Graph graph;
  const Value cache = graph.input("cache", DType::f32, {4096, 16}),
              rows = graph.input("rows", DType::f32, {2, 16});
  graph.output("cache",
               graph::while_loop(cond, body, {graph::scalar_i32(graph, 0), cache}, {rows})[1],
               "cache");
  const auto made = client();
  const auto memory = made->compile(emit(graph, {}), {})->compiled().memory();
  EXPECT_GE(memory->aliased, 4096 * 16 * 4);
  EXPECT_LT(memory->temporaries, 4096 * 16);
  const auto got =
      run_emitted(made, graph, {Tensor(DType::f32, Shape{4096, 16}), numbers({2, 16}, 1)});
  EXPECT_EQ(floats(got[0])[0], 1);
  EXPECT_EQ(floats(got[0])[11 * 16], 17);
  EXPECT_EQ(floats(got[0])[12 * 16], 0);
}

// Truth values as carry, as rows and as consts: i1 out here, bytes where a loop carries them.
TEST_P(EmitInterface, TruthValuesGoThroughLoops) {
  auto body = std::make_shared<Graph>("step");
  const Value c = body->input("c", DType::f32, {2}), mask = body->input("mask", DType::u8, {2});
  const Value row = body->input("row", DType::u8, {2}),
              limit = body->input("limit", DType::u8, {2});
  body->output("c", graph::select(graph::logical_and(row, limit), add(c, c), c));
  body->output("mask", graph::logical_not(mask));
  body->output("row", graph::logical_or(row, mask));
  Graph graph;
  const Value x = graph.input("x", DType::f32, {2}), rows = graph.input("rows", DType::f32, {3, 2});
  const Value zero = graph::scalar(graph, 0);
  for (int64_t end : {3, 1, 0}) { // the last one does not turn
    const auto r = graph::scan(body, {x, less(x, zero)}, {less(rows, zero)}, {graph::is_finite(x)},
                               3, {0, end, false, false});
    for (const Value& y : {r.carry[0], r.carry[1], r.stacked[0]})
      graph.output("y" + std::to_string(graph.outputs().size()), y);
  }
  const Tensor start = Tensor::from(Shape{2}, std::vector<float>{-1, 1});
  const Tensor given = Tensor::from(Shape{3, 2}, std::vector<float>{-1, 1, 1, -1, -1, -1});
  const auto got = run_emitted(client(), graph, {start, given});
  const auto bytes = [&](size_t i) {
    return std::vector<uint8_t>(got[i].as<uint8_t>().begin(), got[i].as<uint8_t>().end());
  };
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(floats(got[0]), (std::vector<float>{-4, 4}));
  EXPECT_EQ(bytes(1), (Bytes{0, 1}));
  EXPECT_EQ(bytes(2), (Bytes{1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(floats(got[3]), (std::vector<float>{-2, 1}));
  EXPECT_EQ(bytes(4), (Bytes{0, 1}));
  EXPECT_EQ(bytes(5), (Bytes{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(floats(got[6]), (std::vector<float>{-1, 1}));
  EXPECT_EQ(bytes(7), (Bytes{1, 0}));
  EXPECT_EQ(bytes(8), Bytes(6, 0));
}

// Arrays without elements go through.
TEST_P(EmitInterface, EmptyArrays) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {0, 3});
  graph.output("sum", sum(x, {0}));
  graph.output("twice", graph::concat({x, x}, 0));
  graph.output("nothing", graph::constant(graph, Tensor(DType::f32, Shape{2, 0})));
  const auto got = run_emitted(client(), graph, {Tensor(DType::f32, Shape{0, 3})});
  EXPECT_EQ(floats(got[0]), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(got[1].shape(), (Shape{0, 3}));
  EXPECT_EQ(got[2].shape(), (Shape{2, 0}));
}

// bf16 rounds the operands alone: products of numbers that bf16 holds are exact, others are near.
TEST_P(EmitInterface, ProductsComputeInWhatWasAsked) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {3, 64}), y = graph.input("y", DType::f32, {64, 2});
  graph.output("z", dot(x, y));
  Tensor a(DType::f32, Shape{3, 64}), b(DType::f32, Shape{64, 2}), c = a.clone();
  for (size_t i = 0; i < 192; ++i) a.mutable_as<float>()[i] = static_cast<float>(i % 13) - 6;
  for (size_t i = 0; i < 128; ++i) b.mutable_as<float>()[i] = static_cast<float>(i % 7) / 4;
  for (size_t i = 0; i < 192; ++i) c.mutable_as<float>()[i] = std::sin(static_cast<float>(i));
  EmitOptions rounded;
  rounded.compute = DType::bf16;
  const auto made = client();
  EXPECT_EQ(floats(run_emitted(made, graph, {a, b}, rounded)[0]),
            floats(run_emitted(made, graph, {a, b})[0]));
  const auto exact = floats(run_emitted(made, graph, {c, b})[0]),
             near = floats(run_emitted(made, graph, {c, b}, rounded)[0]);
  const auto held = floats(run_emitted(made, graph, {c.to(DType::bf16).to(DType::f32), b})[0]);
  EXPECT_NE(exact, near);
  for (size_t i = 0; i < near.size(); ++i) EXPECT_NEAR(near[i], held[i], 1e-5f);
}

DLLM_ON_PLUGINS(EmitInterface);

} // namespace
} // namespace dllm::pjrt

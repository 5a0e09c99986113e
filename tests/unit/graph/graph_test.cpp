// Construction: shape rules and what their errors say.

#include "graph/graph.h"

#include "base/error.h"
#include "graph/op.h"
#include "graph/ops.h"

#include <gtest/gtest.h>

#include <functional>

namespace dllm::graph {
namespace {

void expect_error(Code code, const std::string& text, const std::function<void()>& fn) {
  try {
    fn();
    FAIL() << "no error, expected: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.text();
    EXPECT_EQ(e.text(), text);
  }
}

class GraphTest : public testing::Test {
protected:
  Value f(Shape shape) {
    return graph.input("x" + std::to_string(next++), DType::f32, std::move(shape));
  }
  Value i(Shape shape) {
    return graph.input("x" + std::to_string(next++), DType::i32, std::move(shape));
  }
  Value of(DType dtype, Shape shape) {
    return graph.input("x" + std::to_string(next++), dtype, std::move(shape));
  }
  Graph graph;
  int next = 0;
};

TEST_F(GraphTest, ElementwiseOperandsBroadcast) {
  EXPECT_EQ(add(f({3, 1, 5}), f({4, 1})).shape(), (Shape{3, 4, 5}));
  EXPECT_EQ(multiply(f({2, 3}), scalar(graph, 2)).shape(), (Shape{2, 3}));
  EXPECT_EQ(less(f({2, 3}), f({3})).dtype(), DType::u8);
  EXPECT_EQ(select(of(DType::u8, {2, 1}), f({3}), f({})).shape(), (Shape{2, 3}));
}

TEST_F(GraphTest, ErrorsNameOperationAndShapes) {
  const auto bad = Code::invalid_argument;
  expect_error(bad, "[add] f32(2, 3) and f32(4) do not broadcast", [&] { add(f({2, 3}), f({4})); });
  expect_error(bad, "[add] f32(2) and i32(2) have different types", [&] { add(f({2}), i({2})); });
  expect_error(bad, "[exp] x is i32(2), expected f32", [&] { exp(i({2})); });
  expect_error(bad, "[reshape] f32(2, 3) has 6 elements, (4) has 4", [&] {
    reshape(f({2, 3}), {4});
  });
  expect_error(bad, "[sum] shape (2, 3) has no axis 2", [&] { sum(f({2, 3}), {2}); });
  expect_error(bad, "[sum] axis 1 is given twice", [&] { sum(f({2, 3}), {1, -1}); });
  expect_error(bad, "[dot] f32(2, 3) and f32(4, 5) do not multiply", [&] {
    dot(f({2, 3}), f({4, 5}));
  });
  expect_error(bad, "[slice] [0, 2] to [2, 4] is not inside f32(2, 3)", [&] {
    slice(f({2, 3}), {0, 2}, {2, 4});
  });
  expect_error(bad, "[transpose] [0, 0] is not a permutation of f32(2, 3)", [&] {
    transpose(f({2, 3}), {0, 0});
  });
  expect_error(bad, "[concat] f32(2, 3) and f32(3, 3) do not join along axis 1", [&] {
    concat({f({2, 3}), f({3, 3})}, 1);
  });
  expect_error(bad, "[linear] f32(2, 3) and f32(5, 4) do not fit: the last axis of x must be 4",
               [&] {
                 linear(f({2, 3}), f({5, 4}));
               });
  expect_error(bad, "[linear] weight i8(5, 3) needs a scale", [&] {
    linear(f({2, 3}), of(DType::i8, {5, 3}));
  });
  expect_error(bad, "[linear] bias is f32(4), expected (5)", [&] {
    linear(f({2, 3}), f({5, 3}), f({4}));
  });
  expect_error(bad, "[rms_norm] weight is f32(4), expected (3)", [&] {
    rms_norm(f({2, 3}), f({4}), 1e-5f);
  });
  expect_error(bad, "[rope] 8 dims turn, but head_dim is 6", [&] {
    rope(f({1, 2, 3, 6}), i({1, 2}), f({4}));
  });
  expect_error(bad, "[top_k] k 4 is not in 1..3", [&] { top_k(f({2, 3}), 4); });
  expect_error(bad, "there is no activation named \"swish\"",
               [&] { gated_activation(f({2}), f({2}), "swish"); });
  expect_error(bad, "[concat] has no parts", [&] { concat({}, 0); });
}

TEST_F(GraphTest, AttentionChecksHeadsAndMaskParameters) {
  const Value q = f({2, 5, 4, 3}), k = f({2, 6, 2, 3}), v = f({2, 6, 2, 7});
  const Value out = attention(q, k, v, Mask::causal(), {});
  EXPECT_EQ(out.shape(), (Shape{2, 5, 4, 7}));
  const Node& node = graph.nodes()[static_cast<size_t>(graph.producer(out.id))];
  EXPECT_EQ(graph.type(node.outputs[1]).shape, (Shape{2, 4, 5}));
  const auto bad = Code::invalid_argument;
  expect_error(bad, "[attention] 4 query heads are not a multiple of 3 key heads", [&] {
    attention(q, f({2, 6, 3, 3}), f({2, 6, 3, 3}), {}, {});
  });
  expect_error(bad, "[attention] block is f32(), expected i32",
               [&] { attention(q, k, v, Mask::block_causal(f({})), {}); });
  expect_error(bad, "[attention] keep is u8(2, 5), expected (2, 6)", [&] {
    attention(q, k, v, Mask{}.and_key_keep(of(DType::u8, {2, 5})), {});
  });
  Mask mask = Mask::causal();
  mask.query_start = i({2});
  mask.and_window(i({}));
  EXPECT_EQ(mask.kinds(), "causal+window");
  EXPECT_EQ(mask.params().size(), 2u);
  EXPECT_EQ(attention(q, k, v, mask, {}).shape(), out.shape());
}

TEST_F(GraphTest, ForeignAndMissingOperandsAreErrors) {
  Graph other("other");
  const Value stranger = other.input("a", DType::f32, {2});
  expect_error(Code::invalid_argument, "[add] operand 1 belongs to graph other, not to main",
               [&] { add(f({2}), stranger); });
  expect_error(Code::invalid_argument, "[linear] operand 0 is missing", [&] {
    linear(Value{}, f({2, 2}));
  });
}

TEST_F(GraphTest, InputsAndOutputsAreChecked) {
  graph.input("a", DType::f32, {2});
  expect_error(Code::invalid_argument, "graph main has an input a already",
               [&] { graph.input("a", DType::f32, {2}); });
  expect_error(Code::invalid_argument,
               "input b of graph main is i64, which graphs do not compute with",
               [&] { graph.input("b", DType::i64, {2}); });
  const Value y = exp(f({3}));
  expect_error(Code::invalid_argument, "output y f32(3) cannot take over input a f32(2)",
               [&] { graph.output("y", y, "a"); });
  expect_error(Code::not_found, "output y takes over nothing, which is not an input",
               [&] { graph.output("y", y, "nothing"); });
  const Value a = exp(graph.value(graph.inputs()[0].value));
  graph.output("y", a, "a");
  EXPECT_EQ(graph.outputs()[0].donated_input, 0);
  expect_error(Code::invalid_argument, "input a is taken over by both y and z",
               [&] { graph.output("z", a, "a"); });
  expect_error(Code::invalid_argument, "graph main has an output y already",
               [&] { graph.output("y", a); });
}

TEST_F(GraphTest, ScanNamesBodyAndOperand) {
  auto body = std::make_shared<Graph>("layer");
  const Value x = body->input("x", DType::f32, {2}), w = body->input("w", DType::f32, {2});
  body->output("x", multiply(x, w));
  const auto bad = Code::invalid_argument;
  expect_error(bad, "[scan] body layer wants f32(5, 2) for w, got f32(4, 2)", [&] {
    scan(body, {f({2})}, {f({4, 2})}, {}, 5);
  });
  expect_error(bad, "[scan] range 3 to 6 is not inside 0 to 5", [&] {
    scan(body, {f({2})}, {f({5, 2})}, {}, 5, {3, 6});
  });
  expect_error(bad, "[scan] body layer takes 2 inputs, but carry, per_layer and consts are 1",
               [&] { scan(body, {f({2})}, {}, {}, 5); });
  auto wide = std::make_shared<Graph>("wide");
  wide->output("x",
               concat({wide->input("x", DType::f32, {2}), wide->input("w", DType::f32, {2})}, 0));
  expect_error(bad, "[scan] carry x of body wide enters as f32(2) and leaves as f32(4)", [&] {
    scan(wide, {f({2})}, {f({5, 2})}, {}, 5);
  });
  const ScanResult made = scan(body, {f({2})}, {}, {f({2})}, 3);
  EXPECT_EQ(made.carry[0].shape(), (Shape{2}));
  EXPECT_TRUE(made.stacked.empty());
}

TEST_F(GraphTest, DumpIsReadable) {
  const Value x = graph.input("x", DType::f32, {2, 3}),
              w = graph.input("w", {Shape{4, 3}, DType::f32, {}}, true);
  auto body = std::make_shared<Graph>("twice");
  const Value carry = body->input("c", DType::f32, {2, 4});
  body->output("c", add(carry, carry));
  graph.output("y", scan(body, {linear(x, w)}, {}, {}, 3).carry[0]);
  graph.output("half", multiply(x, scalar(graph, 0.5f)), "x");
  EXPECT_EQ(graph.dump(), "graph main (\n"
                          "    x: f32(2, 3)\n"
                          "    w: f32(4, 3) parameter\n"
                          ") {\n"
                          "  %2: f32(2, 4) = linear(x, w) [has_bias=false has_scale=false]\n"
                          "  %3: f32(2, 4) = scan(%2) [carry=1 per_layer=0 consts=0 count=3 "
                          "begin=0 end=3 reverse=false remat=false recompute=0 round_kept=false]\n"
                          "    graph twice (\n"
                          "        c: f32(2, 4)\n"
                          "    ) {\n"
                          "      %1: f32(2, 4) = add(c, c)\n"
                          "      return c = %1\n"
                          "    }\n"
                          "  %4: f32() = constant() 0.5\n"
                          "  %5: f32(2, 3) = broadcast(%4) [shape=[2, 3]]\n"
                          "  %6: f32(2, 3) = multiply(x, %5)\n"
                          "  return y = %3\n"
                          "  return half = %6 over x\n"
                          "}\n");
}

TEST(Attributes, MissingOrOtherTypeIsAnInternalError) {
  const Attributes attributes{{"axis", int64_t{1}}};
  EXPECT_EQ(attributes.integer("axis"), 1);
  expect_error(Code::internal, "attribute keep is missing", [&] { attributes.flag("keep"); });
  expect_error(Code::internal, "attribute axis is of another type",
               [&] { attributes.flag("axis"); });
}

} // namespace
} // namespace dllm::graph

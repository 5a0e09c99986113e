// Axis types: who varies over what, which reductions are missing or doubled, and that gradients
// over ranks are right.

#include "base/error.h"
#include "graph/mesh.h"
#include "graph/ops.h"
#include "unit/graph/reference_evaluator.h"

#include <gtest/gtest.h>

#include <functional>

namespace dllm::graph {
namespace {

const AxisSet kData(Axis::data), kTensor(Axis::tensor);

std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.text();
  }
  return "";
}

TEST(Axes, OperandsAreMadeVarying) {
  Graph graph;
  const Value x = graph.input("x", {Shape{2}, DType::f32, kData}),
              w = graph.input("w", DType::f32, {2});
  const Value y = multiply(x, w);
  EXPECT_EQ(y.type().text(), "f32(2){data}");
  EXPECT_EQ(std::string(graph.dump()).find("vary(w) [axes=[0]]") != std::string::npos, true)
      << graph.dump();
  EXPECT_EQ(all_reduce(y, kData).type().text(), "f32(2)");
  const Value both = add(y, graph.input("z", {Shape{2}, DType::f32, kTensor}));
  EXPECT_EQ(both.type().text(), "f32(2){data, tensor}");
  EXPECT_EQ(axis_index(graph, Axis::fsdp).type().text(), "i32(){fsdp}");
}

TEST(Axes, DoubledAndMissingReductionsAreErrors) {
  Graph graph;
  const Value x = graph.input("x", {Shape{}, DType::f32, kData}),
              w = graph.input("w", DType::f32, {});
  EXPECT_EQ(error_of([&] { all_reduce(all_reduce(x, kData), kData); }),
            "[all_reduce] f32() is equal over some of {data}: summing it again would multiply it "
            "by the number of ranks");
  EXPECT_EQ(error_of([&] { gradients(multiply(x, w), {w}); }),
            "[gradients] loss f32(){data} differs from rank to rank: a reduction is missing");
  EXPECT_EQ(error_of([&] { graph.output("w", multiply(x, w), "w"); }),
            "output w f32(){data} cannot take over input w f32()");
  EXPECT_EQ(error_of([&] { all_gather(w, Axis::data, 0, 2); }),
            "[all_gather] shape () has no axis 0");
  const Value even = graph.input("even", DType::f32, {4});
  EXPECT_EQ(error_of([&] { all_gather(even, Axis::data, 0, 2); }),
            "[all_gather] f32(4) is equal over data: there is nothing to exchange");
  EXPECT_EQ(error_of([&] { reduce_scatter(vary(even, kData), Axis::data, 0, 3); }),
            "[reduce_scatter] axis 0 of (4) does not divide by 3 ranks");
}

TEST(Axes, GradientHasTheTypeOfItsParameter) {
  Graph graph;
  const Value x = graph.input("x", {Shape{3, 2}, DType::f32, kData}),
              w = graph.input("w", DType::f32, {4, 2});
  const Value loss = all_reduce(sum(linear(x, w), {0, 1}), kData);
  const auto grads = gradients(loss, {w, x});
  EXPECT_EQ(grads[0].type(), w.type());
  EXPECT_EQ(grads[1].type(), x.type());
}

// The rows of one batch on two ranks give the loss and the gradients of the whole batch on one.
Tensor rows(const Tensor& all, int64_t begin, int64_t end) {
  return all.rows(begin, end).clone();
}

struct Program {
  Graph graph;
  Program(int64_t batch, AxisSet axes, bool by_scan) {
    const Value x = graph.input("x", {Shape{batch, 3}, DType::f32, axes});
    const Value w = graph.input("w", DType::f32, {2, 3, 3}), b = graph.input("b", DType::f32, {3});
    Value h = x;
    if (by_scan) {
      auto body = std::make_shared<Graph>("layer");
      const Value c = body->input("h", {Shape{batch, 3}, DType::f32, axes});
      // The layers vary inside: their gradient is reduced in every step. The bias varies outside:
      // reduced once.
      const Value layer = body->input("w", DType::f32, {3, 3});
      const Value bias = body->input("b", {Shape{3}, DType::f32, axes});
      body->output("h", tanh(linear(c, layer, bias)));
      h = scan(body, {h}, {w}, {b}, 2).carry[0];
    } else {
      for (int64_t i = 0; i < 2; ++i) {
        h = tanh(linear(h, reshape(slice_axis(w, 0, i, i + 1), {3, 3}), b));
      }
    }
    const Value loss = all_reduce(sum(multiply(h, h), {0, 1}), axes);
    const auto grads = gradients(loss, {w, b, x});
    graph.output("loss", loss);
    graph.output("w", grads[0], "w");
    graph.output("b", grads[1], "b");
    graph.output("x", grads[2], "x");
  }
};

TEST(Axes, TwoRanksEqualOne) {
  std::vector<float> numbers;
  for (int i = 0; i < 64; ++i) numbers.push_back(0.03f * static_cast<float>((i * 37) % 61) - 0.9f);
  const auto part = [&](Shape shape, size_t from) {
    const auto count = static_cast<size_t>(shape.count());
    return Tensor::from(std::move(shape),
                        std::vector<float>(numbers.begin() + static_cast<long>(from),
                                           numbers.begin() + static_cast<long>(from + count)));
  };
  const Tensor x = part({4, 3}, 0), w = part({2, 3, 3}, 12), b = part({3}, 40);
  for (bool by_scan : {false, true}) {
    const auto whole = test::evaluate(Program(4, {}, by_scan).graph, {x, w, b});
    const auto halves = test::evaluate_ranks(Program(2, kData, by_scan).graph, Axis::data,
                                             {{rows(x, 0, 2), w, b}, {rows(x, 2, 4), w, b}});
    for (size_t rank = 0; rank < 2; ++rank) {
      for (size_t i = 0; i < 3; ++i) {
        const auto wanted = whole[i].as<double>(), got = halves[rank][i].as<double>();
        for (size_t e = 0; e < wanted.size(); ++e)
          EXPECT_NEAR(got[e], wanted[e], 1e-12) << by_scan << " " << i;
      }
      const Tensor own =
          rows(whole[3], static_cast<int64_t>(rank) * 2, static_cast<int64_t>(rank) * 2 + 2);
      const auto wanted = own.as<double>(), got = halves[rank][3].as<double>();
      for (size_t e = 0; e < wanted.size(); ++e) EXPECT_NEAR(got[e], wanted[e], 1e-12);
    }
  }
}

// A weight cut over ranks, gathered for use: its gradient comes back cut, and sums what all ranks
// saw.
TEST(Axes, ShardedWeightGetsItsOwnPartOfTheGradient) {
  Graph graph;
  const AxisSet fsdp(Axis::fsdp);
  const Value x = graph.input("x", {Shape{1, 3}, DType::f32, fsdp});
  const Value w = graph.input("w", {Shape{2, 3}, DType::f32, fsdp}); // half of (4, 3)
  const Value y = linear(x, all_gather(w, Axis::fsdp, 0, 2));
  const Value loss = all_reduce(sum(multiply(y, y), {0, 1}), fsdp);
  graph.output("w", gradients(loss, {w})[0], "w");
  Graph plain;
  const Value px = plain.input("x", DType::f32, {2, 3}), pw = plain.input("w", DType::f32, {4, 3});
  const Value py = linear(px, pw);
  plain.output("w", gradients(sum(multiply(py, py), {0, 1}), {pw})[0]);
  const Tensor all_x = Tensor::from(Shape{2, 3}, std::vector<float>{1, 2, -1, 0.5f, -3, 2});
  const Tensor all_w =
      Tensor::from(Shape{4, 3}, std::vector<float>{1, 0, 2, -1, 1, 3, 2, 2, -2, 0.5f, 1, 1});
  const Tensor wanted = test::evaluate(plain, {all_x, all_w})[0];
  const auto got = test::evaluate_ranks(
      graph, Axis::fsdp,
      {{rows(all_x, 0, 1), rows(all_w, 0, 2)}, {rows(all_x, 1, 2), rows(all_w, 2, 4)}});
  for (size_t e = 0; e < 6; ++e) {
    EXPECT_DOUBLE_EQ(got[0][0].as<double>()[e], wanted.as<double>()[e]);
    EXPECT_DOUBLE_EQ(got[1][0].as<double>()[e], wanted.as<double>()[e + 6]);
  }
}

TEST(Axes, ExchangesUndoTheirGradients) {
  Graph graph;
  const Value x = graph.input("x", {Shape{2, 3}, DType::f32, kData});
  const Value y = all_to_all(permute(x, Axis::data, {1, 0}), Axis::data, 0, 1, 2);
  EXPECT_EQ(y.shape(), (Shape{1, 6}));
  const Value weight =
      convert(add(axis_index(graph, Axis::data), scalar_i32(graph, 1)), DType::f32);
  const Value loss = all_reduce(sum(multiply(multiply(y, y), weight), {0, 1}), kData);
  graph.output("y", y);
  graph.output("x", gradients(loss, {x})[0], "x");
  const Tensor a = Tensor::from(Shape{2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensor b = Tensor::from(Shape{2, 3}, std::vector<float>{7, 8, 9, 10, 11, 12});
  const auto out = test::evaluate_ranks(graph, Axis::data, {{a}, {b}});
  // After the swap rank 0 holds b, rank 1 holds a; then rank 0 gets the first rows, rank 1 the
  // second.
  EXPECT_EQ(out[0][0].as<double>()[0], 7);
  EXPECT_EQ(out[0][0].as<double>()[3], 1);
  EXPECT_EQ(out[1][0].as<double>()[0], 10);
  // The first row of a is weighted 1 (it went to rank 0), the second 2.
  EXPECT_EQ(out[0][1].as<double>()[0], 2 * 1 * 1);
  EXPECT_EQ(out[0][1].as<double>()[3], 2 * 2 * 4);
  EXPECT_EQ(out[1][1].as<double>()[2], 2 * 1 * 9);
}

// What is cut over ranks and compared or put together over all of them: log sum exp with its
// maximum, a gather that all ranks agree on, and each rank's own part of it. Gradients as on one
// rank.
TEST(Axes, EqualResultsHaveTheGradientsOfOneRank) {
  const auto build = [](Graph& graph, int64_t n) {
    const AxisSet over = n == 1 ? AxisSet{} : kTensor;
    const Value x = graph.input("x", {Shape{3, 8 / n}, DType::f32, over});
    const Value lse = log_sum_exp(x, 1, over);
    const Value top = all_reduce_max(max(x, {1}), over);
    Value all = n == 1 ? x : all_gather(x, Axis::tensor, 1, n, true);
    EXPECT_EQ(all.type().text(), "f32(3, 8)");
    const Value swapped = multiply(all, reverse(all, 1)); // ties every part to another one
    Value own = n == 1 ? swapped : own_part(swapped, Axis::tensor, 1, n);
    const Value again = all_reduce(sum(multiply(own, x), {0, 1}), over);
    const Value loss =
        add(add(sum(multiply(lse, top), {0}), sum(multiply(all, swapped), {0, 1})), again);
    graph.output("loss", loss);
    graph.output("x", gradients(loss, {x})[0], "x");
  };
  std::vector<float> numbers;
  for (int i = 0; i < 24; ++i) numbers.push_back(0.07f * static_cast<float>((i * 11) % 24) - 0.8f);
  const Tensor x = Tensor::from(Shape{3, 8}, numbers);
  Graph plain;
  build(plain, 1);
  const auto wanted = test::evaluate(plain, {x});
  for (const int64_t n : {2, 4}) {
    Graph graph;
    build(graph, n);
    const Mesh mesh = Mesh().set(Axis::tensor, n);
    const Layout cut = Layout().cut(Axis::tensor, 1);
    std::vector<std::vector<Tensor>> inputs;
    for (int64_t r = 0; r < n; ++r) inputs.push_back({cut.part(x, {mesh, r})});
    const auto got = test::evaluate_ranks(graph, Axis::tensor, inputs);
    for (int64_t r = 0; r < n; ++r) {
      const auto& own = got[static_cast<size_t>(r)];
      EXPECT_NEAR(own[0].as<double>()[0], wanted[0].as<double>()[0], 1e-12);
      const Tensor part = cut.part(wanted[1], {mesh, r});
      for (size_t e = 0; e < part.as<double>().size(); ++e)
        EXPECT_NEAR(own[1].as<double>()[e], part.as<double>()[e], 1e-12)
            << n << " " << r << " " << e;
    }
  }
}

// Equal maxima share the gradient.
TEST(Axes, EqualMaximaOfRanksShareTheGradient) {
  Graph graph;
  const Value x = graph.input("x", {Shape{2}, DType::f32, kData});
  graph.output("x", gradients(sum(all_reduce_max(x, kData), {0}), {x})[0], "x");
  const auto tensor = [](float a, float b) {
    return Tensor::from(Shape{2}, std::vector<float>{a, b});
  };
  const auto got = test::evaluate_ranks(graph, Axis::data, {{tensor(1, 5)}, {tensor(3, 5)}});
  EXPECT_EQ(got[0][0].as<double>()[0], 0);
  EXPECT_EQ(got[1][0].as<double>()[0], 1);
  EXPECT_EQ(got[0][0].as<double>()[1], 0.5);
  EXPECT_EQ(got[1][0].as<double>()[1], 0.5);
  EXPECT_EQ(error_of([&] { all_reduce_max(all_reduce(x, kData), kData); }),
            "[all_reduce_max] f32(2) is equal over some of {data}: there is nothing to compare");
}

// A loop whose end differs from rank to rank must not communicate inside.
TEST(Axes, LoopDecisionMustBeEqualWhereTheBodyCommunicates) {
  const auto make = [](bool reduce_decision) {
    auto cond = std::make_shared<Graph>("alive"), body = std::make_shared<Graph>("step");
    for (Graph* graph : {cond.get(), body.get()}) {
      const Value n = graph->input("n", {Shape{}, DType::i32, kData});
      if (graph == body.get()) {
        graph->output("n", add(n, multiply(all_reduce(n, kData), scalar_i32(*graph, 0))));
      } else {
        const Value open = convert(less(n, scalar_i32(*graph, 3)), DType::i32);
        graph->output(
            "go", greater(reduce_decision ? all_reduce(open, kData) : open, scalar_i32(*graph, 0)));
      }
    }
    Graph graph;
    while_loop(cond, body, {graph.input("n", {Shape{}, DType::i32, kData})});
  };
  EXPECT_EQ(error_of([&] { make(true); }), "");
  EXPECT_EQ(
      error_of([&] { make(false); }),
      "[while] condition alive varies over {data}, over which loop step communicates, so ranks "
      "would wait forever: all_reduce the condition");
}

} // namespace
} // namespace dllm::graph

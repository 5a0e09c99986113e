// Collectives on 8 replicas of a 4 x 2 mesh (data x tensor): every one's numbers, and gradients
// through them equal to one device's.

#include "graph/ops.h"
#include "pjrt/lower/lower.h"
#include "unit/graph/reference_evaluator.h"
#include "unit/pjrt/emit/run_emitted.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::pjrt {
namespace {

using graph::Axis;
using graph::AxisSet;
using graph::Graph;
using graph::Value;

constexpr int64_t kData = 4, kTensor = 2, kRanks = kData * kTensor;
const AxisSet kD(Axis::data), kT(Axis::tensor), kBoth = kD.with(kT);

EmitOptions mesh_4x2() {
  EmitOptions options;
  options.mesh.set(Axis::data, kData).set(Axis::tensor, kTensor);
  return options;
}

// Whole numbers, different on every rank: sums are exact in any order.
Tensor whole(const Shape& shape, int64_t rank) {
  Tensor made(DType::f32, shape);
  auto values = made.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int64_t>(i) * 7 + rank * 31) % 101 - 50);
  return made;
}

using EmitMesh = OnPlugins;

// What rank r should hold, written out by hand from all ranks' inputs.
TEST_P(EmitMesh, EveryCollective) {
  Graph graph("collectives");
  const Value x = graph.input("x", {Shape{8, 4}, DType::f32, kBoth});
  const Value n = graph.input("n", {Shape{2}, DType::i32, kBoth});
  const Value m = less(x, graph::scalar(graph, 0));
  graph.output("sum data", all_reduce(x, kD));
  graph.output("sum tensor", all_reduce(x, kT));
  graph.output("sum all", all_reduce(x, kBoth));
  graph.output("sum whole", all_reduce(n, kD));
  graph.output("gather", all_gather(x, Axis::data, 0, kData));
  graph.output("gather columns", all_gather(x, Axis::tensor, 1, kTensor));
  graph.output("gather truth", convert(all_gather(m, Axis::tensor, 1, kTensor), DType::f32));
  graph.output("scatter", reduce_scatter(x, Axis::data, 0, kData));
  graph.output("exchange", all_to_all(x, Axis::data, 0, 1, kData));
  graph.output("permute", permute(x, Axis::data, {2, 0, 3, 1}));
  graph.output("data index", graph::axis_index(graph, Axis::data));
  graph.output("tensor index", graph::axis_index(graph, Axis::tensor));
  graph.output("expert index", graph::axis_index(graph, Axis::expert));
  graph.output("gather bf16",
               convert(all_gather(convert(x, DType::bf16), Axis::data, 0, kData), DType::f32));
  graph.output("max data", all_reduce_max(x, kD));
  graph.output("max all", all_reduce_max(x, kBoth));
  graph.output("gather equal", all_gather(x, Axis::tensor, 0, kTensor, true));

  std::vector<std::vector<Tensor>> inputs;
  for (int64_t r = 0; r < kRanks; ++r)
    inputs.push_back(
        {whole({8, 4}, r),
         Tensor::from(Shape{2}, std::vector<int32_t>{static_cast<int32_t>(r), 1 << r})});
  const auto got = run_ranks(client(kRanks), graph, inputs, mesh_4x2());

  const auto at = [&](int64_t rank, int64_t row, int64_t column) {
    return inputs[static_cast<size_t>(rank)][0].as<float>()[static_cast<size_t>(row * 4 + column)];
  };
  for (int64_t r = 0; r < kRanks; ++r) {
    const int64_t d = r / kTensor, t = r % kTensor;
    const auto& out = got[static_cast<size_t>(r)];
    const auto result = [&](size_t i, int64_t row, int64_t column) {
      return out[i].as<float>()[static_cast<size_t>(row * out[i].shape().dim(1) + column)];
    };
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        float over_data = 0, over_all = 0;
        for (int64_t k = 0; k < kData; ++k) over_data += at(k * kTensor + t, i, j);
        for (int64_t k = 0; k < kRanks; ++k) over_all += at(k, i, j);
        float top_data = at(t, i, j), top_all = at(0, i, j);
        for (int64_t k = 0; k < kData; ++k)
          top_data = std::max(top_data, at(k * kTensor + t, i, j));
        for (int64_t k = 0; k < kRanks; ++k) top_all = std::max(top_all, at(k, i, j));
        EXPECT_EQ(result(14, i, j), top_data);
        EXPECT_EQ(result(15, i, j), top_all);
        for (int64_t k = 0; k < kTensor; ++k)
          EXPECT_EQ(result(16, 8 * k + i, j), at(d * kTensor + k, i, j));
        EXPECT_EQ(result(0, i, j), over_data);
        EXPECT_EQ(result(1, i, j), at(d * kTensor, i, j) + at(d * kTensor + 1, i, j));
        EXPECT_EQ(result(2, i, j), over_all);
        for (int64_t k = 0; k < kData; ++k) {
          EXPECT_EQ(result(4, 8 * k + i, j), at(k * kTensor + t, i, j));
          EXPECT_EQ(result(13, 8 * k + i, j),
                    at(k * kTensor + t, i, j)); // small whole numbers fit bf16
        }
        for (int64_t k = 0; k < kTensor; ++k) {
          EXPECT_EQ(result(5, i, 4 * k + j), at(d * kTensor + k, i, j));
          EXPECT_EQ(result(6, i, 4 * k + j), at(d * kTensor + k, i, j) < 0 ? 1 : 0);
        }
        // Rows 2d and 2d + 1 of everybody's sum.
        if (i / 2 == d) {
          EXPECT_EQ(result(7, i % 2, j), over_data);
        }
        // Rank d gets rows 2d, 2d + 1 of every rank, side by side.
        if (i < 2) {
          for (int64_t k = 0; k < kData; ++k)
            EXPECT_EQ(result(8, i, 4 * k + j), at(k * kTensor + t, 2 * d + i, j));
        }
        const int64_t from[] = {1, 3, 0, 2}; // who sends to d
        EXPECT_EQ(result(9, i, j), at(from[d] * kTensor + t, i, j));
      }
    }
    EXPECT_EQ(out[3].as<int32_t>()[0], 12 + 4 * t);
    EXPECT_EQ(out[3].as<int32_t>()[1], (1 + 4 + 16 + 64) << t);
    EXPECT_EQ(out[10].as<int32_t>()[0], d);
    EXPECT_EQ(out[11].as<int32_t>()[0], t);
    EXPECT_EQ(out[12].as<int32_t>()[0], 0);
  }
}

Tensor small(const Shape& shape, size_t seed) {
  Tensor made(DType::f32, shape);
  auto values = made.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 0.03f * static_cast<float>((i * 37 + seed * 11) % 61) - 0.9f;
  return made;
}

Tensor columns(const Tensor& x, int64_t begin, int64_t end) {
  Tensor made(DType::f32, Shape{x.shape().dim(0), end - begin});
  for (int64_t i = 0; i < x.shape().dim(0); ++i) {
    for (int64_t j = begin; j < end; ++j)
      made.mutable_as<float>()[static_cast<size_t>(i * (end - begin) + j - begin)] =
          x.as<float>()[static_cast<size_t>(i * x.shape().dim(1) + j)];
  }
  return made;
}

void expect_near(const Tensor& got, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  const Tensor wide = wanted.to(DType::f32);
  for (size_t i = 0; i < wide.as<float>().size(); ++i)
    ASSERT_NEAR(got.as<float>()[i], wide.as<float>()[i],
                3e-5f * (1 + std::fabs(wide.as<float>()[i])))
        << what << " " << i;
}

// A layer per step: the hidden units are cut over tensor ranks, rows over data ranks. With no axes
// it is the same loss on one device.
struct Training {
  Graph graph{"training"};
  Training(int64_t batch, int64_t hidden, AxisSet data, AxisSet tensor, int64_t layers) {
    const Value x = graph.input("x", {Shape{batch, 6}, DType::f32, data});
    const Value up = graph.input("up", {Shape{layers, hidden, 6}, DType::f32, tensor});
    const Value down = graph.input("down", {Shape{layers, 6, hidden}, DType::f32, tensor});
    const Value bias = graph.input("bias", DType::f32, {6});
    auto body = std::make_shared<Graph>("layer");
    const Value h = body->input("h", {Shape{batch, 6}, DType::f32, data});
    const Value u = body->input("up", {Shape{hidden, 6}, DType::f32, tensor});
    const Value d = body->input("down", {Shape{6, hidden}, DType::f32, tensor});
    const Value b = body->input("bias", {Shape{6}, DType::f32, data});
    const Value inner =
        tanh(linear(vary(h, tensor), u)); // h is equal over tensor: its gradient is summed there
    body->output("h", add(h, add(all_reduce(linear(inner, d), tensor), b)));
    const Value y = graph::scan(body, {x}, {up, down}, {bias}, layers).carry[0];
    const Value loss = all_reduce(sum(multiply(y, y), {0, 1}), data);
    const auto grads = gradients(loss, {up, down, bias, x});
    graph.output("loss", loss);
    graph.output("up", grads[0], "up");
    graph.output("down", grads[1], "down");
    graph.output("bias", grads[2], "bias");
    graph.output("x", grads[3], "x");
  }
};

TEST_P(EmitMesh, GradientsEqualThoseOfOneDevice) {
  constexpr int64_t kBatch = 8, kHidden = 10, kLayers = 3, kRows = kBatch / kData,
                    kUnits = kHidden / kTensor;
  const Tensor x = small({kBatch, 6}, 1), bias = small({6}, 2);
  const Tensor up = small({kLayers, kHidden, 6}, 3), down = small({kLayers, 6, kHidden}, 4);
  const auto wanted =
      graph::test::evaluate(Training(kBatch, kHidden, {}, {}, kLayers).graph, {x, up, down, bias});

  // Parts of stacked weights, each layer cut the same way.
  const auto up_part = [&](const Tensor& all, int64_t t) {
    return columns(all.reshaped({kLayers, kHidden * 6}), t * kUnits * 6, (t + 1) * kUnits * 6)
        .reshaped({kLayers, kUnits, 6});
  };
  const auto down_part = [&](const Tensor& all, int64_t t) {
    return columns(all.reshaped({kLayers * 6, kHidden}), t * kUnits, (t + 1) * kUnits)
        .reshaped({kLayers, 6, kUnits});
  };
  std::vector<std::vector<Tensor>> inputs;
  for (int64_t r = 0; r < kRanks; ++r) {
    const int64_t d = r / kTensor, t = r % kTensor;
    inputs.push_back(
        {x.rows(d * kRows, (d + 1) * kRows).clone(), up_part(up, t), down_part(down, t), bias});
  }
  const Training ranks(kRows, kUnits, kD, kT, kLayers);
  const auto got = run_ranks(client(kRanks), *lower(ranks.graph), inputs, mesh_4x2());
  for (int64_t r = 0; r < kRanks; ++r) {
    const int64_t d = r / kTensor, t = r % kTensor;
    const auto& out = got[static_cast<size_t>(r)];
    expect_near(out[0], wanted[0], "loss");
    expect_near(out[1], up_part(wanted[1].to(DType::f32), t), "up");
    expect_near(out[2], down_part(wanted[2].to(DType::f32), t), "down");
    expect_near(out[3], wanted[3], "bias");
    expect_near(out[4], wanted[4].to(DType::f32).rows(d * kRows, (d + 1) * kRows).clone(), "x");
  }
}

// Rows alone are cut: parameters are equal on all ranks, and so are their gradients.
TEST_P(EmitMesh, DataParallelLossEqualsTheWholeBatch) {
  const auto build = [](Graph& graph, int64_t batch, AxisSet axes) {
    const Value x = graph.input("x", {Shape{batch, 5}, DType::f32, axes}),
                w = graph.input("w", DType::f32, {3, 5});
    const Value g = graph.input("g", DType::f32, {5});
    const Value y = linear(rms_norm(x, g, 1e-5f), w);
    const Value loss = all_reduce(sum(log_softmax(y, -1), {0, 1}), axes);
    const auto grads = gradients(loss, {w, g});
    graph.output("loss", loss);
    graph.output("w", grads[0], "w");
    graph.output("g", grads[1], "g");
  };
  const Tensor x = small({16, 5}, 5), w = small({3, 5}, 6), g = small({5}, 7);
  Graph one, many;
  build(one, 16, {});
  build(many, 2, kBoth);
  const auto wanted = graph::test::evaluate(one, {x, w, g});
  std::vector<std::vector<Tensor>> inputs;
  for (int64_t r = 0; r < kRanks; ++r) inputs.push_back({x.rows(2 * r, 2 * r + 2).clone(), w, g});
  const auto got = run_ranks(client(kRanks), *lower(many), inputs, mesh_4x2());
  for (const auto& rank : got) {
    for (size_t i = 0; i < rank.size(); ++i) expect_near(rank[i], wanted[i], one.outputs()[i].name);
  }
}

// Exchanges go back the way they came.
TEST_P(EmitMesh, GradientsThroughExchanges) {
  Graph graph;
  const Value x = graph.input("x", {Shape{8, 4}, DType::f32, kD});
  const Value mixed = all_to_all(permute(x, Axis::data, {2, 0, 3, 1}), Axis::data, 0, 1, kData);
  const Value spread =
      reduce_scatter(all_gather(mixed, Axis::data, 0, kData), Axis::data, 1, kData);
  const Value weight =
      convert(add(graph::axis_index(graph, Axis::data), graph::scalar_i32(graph, 1)), DType::f32);
  const Value loss = all_reduce(sum(multiply(multiply(spread, spread), weight), {0, 1}), kD);
  graph.output("loss", loss);
  graph.output("x", gradients(loss, {x})[0], "x");
  std::vector<std::vector<Tensor>> of_data, inputs;
  for (int64_t d = 0; d < kData; ++d) of_data.push_back({small({8, 4}, static_cast<size_t>(d))});
  for (int64_t r = 0; r < kRanks; ++r) inputs.push_back(of_data[static_cast<size_t>(r / kTensor)]);
  const auto wanted = graph::test::evaluate_ranks(graph, Axis::data, of_data);
  const auto got = run_ranks(client(kRanks), graph, inputs, mesh_4x2());
  for (size_t r = 0; r < got.size(); ++r) {
    for (size_t i = 0; i < 2; ++i)
      expect_near(got[r][i], wanted[r / kTensor][i], graph.outputs()[i].name);
  }
}

// A loop whose end all ranks agree on, with collectives in its condition and its body.
TEST_P(EmitMesh, LoopsDecideTogether) {
  auto cond = std::make_shared<Graph>("alive"), body = std::make_shared<Graph>("step");
  for (Graph* graph : {cond.get(), body.get()}) {
    const Value n = graph->input("n", {Shape{}, DType::i32, kD}),
                limit = graph->input("limit", {Shape{}, DType::i32, kD});
    const Value open = convert(less(n, limit), DType::i32);
    const Value alive = all_reduce(open, kD); // so many ranks are not done
    if (graph == cond.get())
      graph->output("go", greater(alive, graph::scalar_i32(*graph, 0)));
    else
      graph->output("n", add(n, multiply(open, alive)));
  }
  Graph graph;
  const Value n = graph.input("n", {Shape{}, DType::i32, kD}),
              limit = graph.input("limit", {Shape{}, DType::i32, kD});
  graph.output("n", graph::while_loop(cond, body, {n}, {limit})[0]);
  std::vector<std::vector<Tensor>> inputs;
  for (int64_t r = 0; r < kRanks; ++r)
    inputs.push_back(
        {Tensor::scalar<int32_t>(0), Tensor::scalar(static_cast<int32_t>(1 + 4 * (r / kTensor)))});
  const auto got = run_ranks(client(kRanks), graph, inputs, mesh_4x2());
  // Limits 1 5 9 13. Steps: +4 all; +3 of three: 7; rank 1 done: +2 of two: 9; +1 of one: 10 .. 13.
  const int32_t wanted[] = {4, 7, 9, 13};
  for (size_t r = 0; r < got.size(); ++r)
    EXPECT_EQ(got[r][0].as<int32_t>()[0], wanted[r / kTensor]);
}

DLLM_ON_PLUGINS(EmitMesh);

} // namespace
} // namespace dllm::pjrt

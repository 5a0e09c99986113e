// What is no number stays none: attention, cross entropy, token statistics and reductions pass NaN
// on to every result that depends on it, and to no other.

#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor with(Tensor tensor, std::initializer_list<int64_t> places, float value) {
  Tensor changed = tensor.clone();
  for (const int64_t at : places) changed.mutable_as<float>()[static_cast<size_t>(at)] = value;
  return changed;
}

// q, k, v (1, 3, 2, 4), causal: rows are queries, 8 numbers each, 4 a head.
std::vector<float> attend(const Tensor& q, const Tensor& k) {
  const auto graph = std::make_shared<Graph>("attend");
  const Shape shape{1, 3, 2, 4};
  graph::AttentionOptions options;
  options.scale = 0.5f;
  const graph::Mask mask = graph::Mask::causal();
  const Value x = graph->input("q", DType::f32, shape), y = graph->input("k", DType::f32, shape);
  graph->output("out", graph::attention(x, y, graph->input("v", DType::f32, shape), mask, options));
  const Tensor out = run_graph(*test_engine(), graph, {q, k, random_tensor(shape, 7)})[0];
  return {out.as<float>().begin(), out.as<float>().end()};
}

TEST(NotFinite, AttentionPassesOneNanOn) {
  const Shape shape{1, 3, 2, 4};
  const Tensor q = random_tensor(shape, 3), k = random_tensor(shape, 5);
  const std::vector<float> healthy = attend(q, k);
  for (const float value : {kNan, kInfinity}) {
    // One number of query 1, head 0.
    const std::vector<float> query = attend(with(q, {8 + 2}, value), k);
    // One number of key 1, head 1: seen by queries 1 and 2.
    const std::vector<float> key = attend(q, with(k, {8 + 4 + 1}, value));
    for (size_t i = 0; i < healthy.size(); ++i) {
      const size_t row = i / 8, head = i % 8 / 4;
      if (row == 1 && head == 0 && std::isnan(value)) {
        EXPECT_TRUE(std::isnan(query[i])) << i;
      } else if (row != 1 || head != 0) {
        EXPECT_EQ(query[i], healthy[i]) << i;
      }
      if (row >= 1 && head == 1 && std::isnan(value)) {
        EXPECT_TRUE(std::isnan(key[i])) << i;
      } else if (row < 1 || head != 1) {
        EXPECT_EQ(key[i], healthy[i]) << i;
      }
    }
  }
}

// logits (rows, 7) as a product with the unit matrix.
Value unit_matrix(Graph& graph) {
  Tensor one(DType::f32, {7, 7});
  for (size_t i = 0; i < 7; ++i) one.mutable_as<float>()[i * 8] = 1.0f;
  return graph::constant(graph, one);
}

// A product with the unit matrix would make a whole row of logits NaN: they come as the bias.
std::vector<Tensor> statistics(const std::vector<float>& logits, bool ban_all = false,
                               bool as_softmax = false) {
  const auto graph = std::make_shared<Graph>("statistics");
  graph::TokenStatisticsInputs in;
  in.x = graph::constant(*graph, Tensor(DType::f32, {1, 7}));
  in.weight = unit_matrix(*graph);
  in.bias = graph->input("logits", DType::f32, {7});
  in.temperature = graph::constant(*graph, Tensor::from(Shape{1}, std::vector<float>{0.7f}));
  const Tensor top_p = Tensor::from(Shape{1}, std::vector<float>{0.9f});
  in.filters = {{"top_p", graph::constant(*graph, top_p)}};
  in.uniform = graph::constant(*graph, Tensor::from(Shape{1}, std::vector<float>{0.5f}));
  if (ban_all)
    in.banned = graph::constant(*graph, Tensor::from(Shape{7}, std::vector<uint8_t>(7, 1)));
  in.shaped = true;
  in.as_softmax = as_softmax;
  const graph::TokenStatistics s = graph::token_statistics(in, 2);
  graph->output("max_prob", s.max_prob);
  graph->output("entropy", s.entropy);
  graph->output("log_sum_exp", s.log_sum_exp);
  graph->output("draw_prob", s.draw_prob);
  graph->output("shaped_prob", s.shaped_prob);
  graph->output("top_probs", s.top_probs);
  return run_graph(*test_engine(), graph, {Tensor::from(Shape{7}, logits)});
}

TEST(NotFinite, TokenStatisticsAreNan) {
  const std::vector<float> healthy = {1, 2, 3, 4, 3, 2, 1};
  for (const Tensor& array : statistics(healthy)) EXPECT_TRUE(std::isfinite(array.as<float>()[0]));
  std::vector<float> one = healthy, all(7, kNan), high = healthy;
  one[5] = kNan;
  high[2] = kInfinity;
  for (const auto& logits : {one, all, high}) {
    for (const Tensor& array : statistics(logits)) EXPECT_TRUE(std::isnan(array.as<float>()[0]));
  }
  EXPECT_EQ(statistics(healthy, true)[0].as<float>()[0], 0.0f); // every id is banned
}

// Soft decoding mixes p of a token with 1 - p of the mask: of large logits, log_sum_exp keeps too
// few bits of that.
TEST(TokenStatistics, ProbabilitiesOfLargeLogitsAsSoftmaxMakesThem) {
  const std::vector<float> logits = {300.25f, 291.5f, 290.0f, -7, 12, 288.75f, 100};
  double total = 0;
  for (const float z : logits) total += std::exp(static_cast<double>(z) - 300.25);
  const double first = 1 / total, second = std::exp(291.5 - 300.25) / total;
  const auto made = statistics(logits, false, true);
  EXPECT_NEAR(made[0].as<float>()[0], first, 6e-8);   // max_prob
  EXPECT_NEAR(made[3].as<float>()[0], first, 6e-8);   // draw_prob
  EXPECT_NEAR(made[5].as<float>()[1], second, 1e-10); // top_probs
  const auto plain = statistics(logits);
  EXPECT_GT(std::abs(plain[0].as<float>()[0] - first), 1e-6); // why
}

TEST(NotFinite, CrossEntropyIsNan) {
  const auto loss = [](const std::vector<float>& logits, int32_t target) {
    const auto graph = std::make_shared<Graph>("loss");
    const Value x = graph::constant(*graph, Tensor(DType::f32, {1, 7}));
    const Value bias = graph->input("logits", DType::f32, {7});
    const Value targets =
        graph::constant(*graph, Tensor::from(Shape{1}, std::vector<int32_t>{target}));
    graph->output("nll",
                  graph::linear_cross_entropy(x, unit_matrix(*graph), bias, {}, targets, {}));
    return run_graph(*test_engine(), graph, {Tensor::from(Shape{7}, logits)})[0].as<float>()[0];
  };
  std::vector<float> one = {1, 2, 3, 4, 3, 2, 1}, all(7, kNan), mixed(7, -kInfinity);
  EXPECT_TRUE(std::isfinite(loss(one, 3)));
  one[6] = kNan;
  mixed[1] = kNan;
  EXPECT_TRUE(std::isnan(loss(one, 3)));
  EXPECT_TRUE(std::isnan(loss(all, 3)));
  EXPECT_TRUE(std::isnan(loss(mixed, 3)));
}

TEST(NotFinite, ReductionsPassNanOn) {
  const auto graph = std::make_shared<Graph>("reductions");
  const Value x = graph->input("x", DType::f32, {2, 40});
  graph->output("max", graph::max(x, {1}));
  graph->output("min", graph::min(x, {1}));
  graph->output("sum", graph::sum(x, {1}));
  graph->output("softmax", graph::softmax(x, 1));
  graph->output("columns", graph::max(x, {0}));
  graph->output("argmax", graph::argmax(x, 1));
  const auto out =
      run_graph(*test_engine(), graph, {with(random_tensor(Shape{2, 40}, 9), {40 + 33}, kNan)});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isfinite(out[i].as<float>()[0])) << i;
    EXPECT_TRUE(std::isnan(out[i].as<float>()[1])) << i;
  }
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(std::isfinite(out[3].as<float>()[i]));
    EXPECT_TRUE(std::isnan(out[3].as<float>()[40 + i]));
    EXPECT_EQ(std::isnan(out[4].as<float>()[i]), i == 33);
  }
  EXPECT_EQ(out[5].as<int32_t>()[1], 33); // the first NaN is the largest
}

} // namespace
} // namespace dllm::cpu

// The hard form of the repetition term, against numbers by hand.

#include "noise/loss/path_loss.h"

#include "cpu/engine.h"
#include "graph/engine.h"

#include <gtest/gtest.h>

#include <vector>

namespace dllm::noise {
namespace {

struct Repetition {
  float loss;
  std::vector<float> gradient; // by the logits
};

// Logits (rows, 3) of one row of a batch whose neighbours are all pairs of weight 1 each.
Repetition repetition(const std::vector<float>& logits, const std::vector<int32_t>& owners) {
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  const auto graph = std::make_shared<graph::Graph>("repetition");
  const auto count = static_cast<int64_t>(owners.size());
  const auto constant = [&](const Tensor& values) { return graph::constant(*graph, values); };
  const graph::Value hidden = graph->input("logits", DType::f32, Shape{count, 3});
  model::Head head;
  head.weight = constant(Tensor::from(Shape{3, 3}, std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  std::vector<float> pairs(owners.size(), 0.0f);
  for (size_t k = 0; k + 1 < owners.size(); ++k)
    pairs[k] = owners[k] == owners[k + 1] ? 1.0f : 0.0f;
  PathRows rows;
  rows.hidden = hidden;
  rows.targets = constant(Tensor(DType::i32, {count}));
  rows.count = graph::scalar_i32(*graph, static_cast<int32_t>(count));
  rows.weights = constant(Tensor(DType::f32, {count}));
  rows.pairs = constant(Tensor::from(Shape{count}, pairs));
  rows.owners = constant(Tensor::from(Shape{count}, owners));
  rows.batch = owners.back() + 1;
  const PathLoss made = path_loss(head, rows);
  graph->output("repetition", made.repetition);
  graph->output("gradient", graph::gradients(made.repetition, {hidden})[0]);
  const std::vector<graph::BufferRef> inputs = {
      engine->upload(Tensor::from(Shape{count, 3}, logits))};
  const auto outputs = engine->compile(graph)->run(inputs);
  const Tensor loss = outputs[0]->read(), gradient = outputs[1]->read();
  return {loss.as<float>()[0], {gradient.as<float>().begin(), gradient.as<float>().end()}};
}

TEST(PathLoss, TheHardFormCountsMarginsOfCollisions) {
  const Repetition made = repetition({2, 1, 0, 1.5f, 1, .5f}, {0, 0});
  EXPECT_NEAR(made.loss, 0.75, 1e-6); // (1 + 0.5) / 2
  const std::vector<float> wanted = {.5f, -.5f, 0, .5f, -.5f, 0};
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(made.gradient[i], wanted[i], 1e-6) << i;
}

TEST(PathLoss, PairsThatDifferDoNotCount) {
  const Repetition none = repetition({2, 1, 0, 1, 1.5f, .5f}, {0, 0});
  EXPECT_EQ(none.loss, 0);
  for (const float slope : none.gradient) EXPECT_EQ(slope, 0);
  // Of three rows the first two collide; the mean is over one pair, and the second row of the batch
  // has its own.
  EXPECT_NEAR(repetition({2, 1, 0, 1.5f, 1, .5f, 0, 3, 0, 0, 1, 0, 0, 3, 0}, {0, 0, 0, 1, 1}).loss,
              0.75 + 2, 1e-6);
}

} // namespace
} // namespace dllm::noise

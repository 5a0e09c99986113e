// Objective embedding: what it noises, counts and predicts.

#include "base/error.h"
#include "noise/latent/embedding_space.h"
#include "noise/loss/token_ce.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

std::shared_ptr<model::Model> with_inlet() {
  const auto model = tiny_model();
  model::add_new_network(*model, kInletPart, inlet_config(model->config()), 4);
  return model;
}

Batch prepared_rows(const Objective& objective, const Batch& raw, const model::Model& model) {
  return objective.prepare(raw, 3, 1, prepare_context(objective, model.config()));
}

TEST(EmbeddingObjective, HasTheGradientOfItsLoss) {
  const auto model = with_inlet();
  // No gradient flows through the own estimate, so that a difference would not agree.
  const ObjectiveRef objective = tiny_objective("embedding", {{"self_condition", 0.0}});
  LossRunner runner(model, objective);
  expect_gradient(*model, runner, *objective, prepared_rows(*objective, tiny_rows(2, 8), *model));
}

TEST(EmbeddingObjective, AnyCutOfABatchHasItsNoise) {
  const auto model = with_inlet();
  for (const double share : {0.0, 0.5, 1.0}) {
    const ObjectiveRef objective = tiny_objective("embedding", {{"self_condition", share}});
    LossRunner runner(model, objective);
    const LossValue whole = runner.run(tiny_rows(6, 8, 0, 6), 3, 1, nullptr);
    const LossValue first = runner.run(tiny_rows(1, 8, 0, 6), 3, 1, nullptr);
    const LossValue rest = runner.run(tiny_rows(5, 8, 1, 6), 3, 1, nullptr);
    EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-4 * std::abs(whole.sum));
    EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
  }
}

TEST(EmbeddingObjective, CountsTheTokensThatAreNotGiven) {
  const auto model = with_inlet();
  const ObjectiveRef always = tiny_objective("embedding", {{"prefix", 1.0}});
  const Batch random = prepared_rows(*always, tiny_rows(64, 8), *model);
  const auto given = random.at("embedding_given").as<float>();
  const auto targets = random.at("targets").as<int32_t>();
  int64_t most = 0, shown = 0;
  for (size_t row = 0; row < 64; ++row) {
    const auto own = given.subspan(8 * row, 8);
    const int64_t count = std::ranges::count(own, 1.0f);
    EXPECT_TRUE(std::ranges::is_sorted(own, std::greater<>())) << "a prefix";
    most = std::max(most, count);
    shown += count;
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(targets[8 * row + i] < 0, own[i] != 0);
    EXPECT_EQ(random.at(kNormalizer).as<float>()[row], static_cast<float>(8 - count));
  }
  EXPECT_EQ(most, 7); // at least one token is left
  EXPECT_NEAR(static_cast<double>(shown) / 64, 3.5, 1.2);
  Batch zeros = tiny_rows(64, 8); // a loader marks every row, also one without given tokens
  zeros.set("keep", Tensor(DType::u8, {64, 8}));
  const Batch marked = prepared_rows(*always, zeros, *model);
  EXPECT_TRUE(std::ranges::equal(marked.at("embedding_given").as<float>(), given));
  Batch rows = tiny_rows(1, 8);
  const std::vector<uint8_t> keep = {0, 1, 0, 0, 1, 1, 0, 0};
  rows.set("keep", Tensor::from(Shape{1, 8}, keep));
  const Batch holes = prepared_rows(*always, rows, *model);
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(holes.at("embedding_given").as<float>()[i], static_cast<float>(keep[i]));
}

TEST(EmbeddingObjective, ANoiselessRowIsReadFromItsEmbeddings) {
  const auto model = with_inlet();
  const ObjectiveRef objective =
      tiny_objective("embedding", {{"self_condition", 0.0}, {"prefix", 0.0}});
  LossRunner runner(model, objective);
  const auto loss_at = [&](float time, int64_t step) {
    Batch rows = tiny_rows(2, 8);
    rows.set("t", Tensor::from(Shape{2}, std::vector<float>{time, time}));
    return runner.run(rows, 3, step, nullptr).mean();
  };
  EXPECT_EQ(loss_at(0, 1), loss_at(0, 2)) << "without noise no draw matters";
  EXPECT_NE(loss_at(0.5, 1), loss_at(0.5, 2));
}

TEST(EmbeddingObjective, NeedsItsInletAndNoShift) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("embedding");
  test::expect_error(Code::not_found, "inlet", [&] { objective->check_parts(*model); });
  test::expect_error(Code::invalid_argument, "shift is 0", [] {
    tiny_objective("embedding", {{"shift", 1}});
  });
}

} // namespace
} // namespace dllm::noise

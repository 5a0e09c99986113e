// The objective grpo: what is masked, how ratios are clipped, and that its gradient is that of the
// loss.

#include "base/error.h"
#include "noise/objective.h"
#include "tiny.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::noise {
namespace {

// Two rows of 8 tokens with prompts of 3.
Batch advantaged_answers(const std::vector<float>& advantages) {
  Batch raw = tiny_rows(2, 8);
  raw.set("keep", Tensor::from(Shape{2, 8}, std::vector<uint8_t>{1, 1, 1, 0, 0, 0, 0, 0, //
                                                                 1, 1, 1, 0, 0, 0, 0, 0}));
  raw.set("advantages", Tensor::from(Shape{2}, advantages));
  return raw;
}

Batch prepared_answers(const Objective& objective, const Batch& raw, const model::Model& model) {
  return objective.prepare(raw, 3, 1, prepare_context(objective, model.config()));
}

Tensor constant(float value) {
  return Tensor::from(Shape{2, 8}, std::vector<float>(16, value));
}

TEST(Grpo, AnswersAreMaskedWhole) {
  const auto model = tiny_model();
  for (const double share : {0.0, 1.0}) {
    const ObjectiveRef objective =
        tiny_objective("grpo", {{"mask_prompt", share}, {"guidance", 1.0}});
    const Batch prepared = prepared_answers(*objective, advantaged_answers({1, 1}), *model);
    for (size_t at = 0; at < 16; ++at) {
      const bool prompt = at % 8 < 3;
      EXPECT_EQ(prepared.at("ids").as<int32_t>()[at] == kTinyMask, !prompt || share == 1.0) << at;
      EXPECT_EQ(prepared.at("targets").as<int32_t>()[at] >= 0, !prompt) << at;
      EXPECT_EQ(prepared.at("unconditional").as<int32_t>()[at], kTinyMask);
    }
  }
}

// Without old probabilities every ratio is 1, and the gradient is that of the weighted log
// likelihood.
TEST(Grpo, WithoutOldProbabilitiesRatiosAreOne) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("grpo");
  const Batch prepared = prepared_answers(*objective, advantaged_answers({2, -1}), *model);
  LossRunner runner(model, objective);
  EXPECT_NEAR(runner.run(prepared, 0, 0, nullptr).mean(), -0.5, 1e-5);
  Batch weighed = prepared;
  Tensor weights = prepared.at("weights").clone();
  for (size_t at = 0; at < 16; ++at) weights.mutable_as<float>()[at] *= at < 8 ? 2.0f : -1.0f;
  weighed.set("weights", weights);
  const ObjectiveRef plain = tiny_objective("token_ce", {{"attention", "bidirectional"}});
  const LossGradients got = loss_gradients(*model, *objective, prepared),
                      want = loss_gradients(*model, *plain, weighed);
  for (size_t k = 0; k < got.gradients.size(); ++k) {
    const auto own = got.gradients[k].second.as<float>(),
               other = want.gradients[k].second.as<float>();
    for (size_t i = 0; i < own.size(); ++i)
      ASSERT_NEAR(own[i], other[i], 1e-4) << got.gradients[k].first;
  }
}

TEST(Grpo, RatiosAreClippedOnTheSideOfTheAdvantage) {
  const auto model = tiny_model();
  const ObjectiveRef objective =
      tiny_objective("grpo", {{"clip_low", 0.1}, {"clip_high", 0.3}, {"kl_weight", 0.0}});
  LossRunner runner(model, objective);
  const auto loss = [&](float advantage, float old) {
    Batch prepared =
        prepared_answers(*objective, advantaged_answers({advantage, advantage}), *model);
    prepared.set("old_log_probs", constant(old));
    return runner.run(prepared, 0, 0, nullptr).mean();
  };
  EXPECT_NEAR(loss(1, -1000), -1.3, 1e-5); // far more probable now: no more than 1 + clip_high
  EXPECT_NEAR(loss(-1, 100), 0.9, 1e-5);   // far less probable: no less than 1 - clip_low
  EXPECT_NEAR(loss(1, 100), 0, 1e-5);      // not clipped where that would raise the objective
}

TEST(Grpo, GradientsAreThoseOfTheLoss) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective(
      "grpo", {{"clip_low", 1.0}, {"clip_high", 1e6}, {"kl_weight", 0.3}, {"guidance", 0.5}});
  LossRunner runner(model, objective);
  Batch prepared = prepared_answers(*objective, advantaged_answers({1, -0.5}), *model);
  prepared.set("old_log_probs", constant(-3));
  prepared.set("reference_log_probs", constant(-4));
  expect_gradient(*model, runner, *objective, prepared);
}

TEST(Grpo, ErrorsNameTheArray) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("grpo", {{"kl_weight", 0.1}});
  Batch raw = advantaged_answers({1, 1});
  EXPECT_THROW(objective->feed(prepared_answers(*objective, raw, *model), model->config()), Error);
  raw.set("reference_log_probs", Tensor(DType::f32, {2, 7}));
  EXPECT_THROW(objective->feed(prepared_answers(*objective, raw, *model), model->config()), Error);
  raw.remove("advantages");
  EXPECT_THROW(objective->feed(prepared_answers(*objective, raw, *model), model->config()), Error);
}

} // namespace
} // namespace dllm::noise

#include "noise/schedules/gaussian_noise.h"

#include "noise/loss/uniform_nelbo.h"
#include "tiny.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace dllm::noise {
namespace {

// Computed independently, in higher precision.
TEST(GaussianNoise, AlphaIsThatOfTheArgmax) {
  const auto expect_near = [](double gamma, int64_t tokens, double want) {
    EXPECT_NEAR(gaussian_alpha(gamma, tokens), want, 1e-7) << gamma << " of " << tokens;
  };
  expect_near(-3.5, 2, .99995281);
  expect_near(-1.75, 2, .91016353);
  expect_near(0, 2, .52049988);
  expect_near(-3.5, 27, .99943533);
  expect_near(-1.75, 27, .63430978);
  expect_near(0, 27, .15935949);
  expect_near(-3.5, 50258, .92834682);
  expect_near(-1.75, 50258, .03828157);
  expect_near(0, 50258, .0008473);
}

// Entries of w drawn as order statistics: how often the clean token is the largest, and the mean of
// the largest other.
TEST(GaussianNoise, DrawsAreThoseOfAllEntries) {
  const int64_t tokens = 27, draws = 4000;
  const double gamma = -1.75, alpha = gaussian_alpha(gamma, tokens);
  const Key key = make_key(3);
  int64_t kept = 0;
  std::set<int64_t> seen;
  for (int64_t i = 0; i < draws; ++i) {
    const SoftToken token = draw_soft_token(key, static_cast<uint64_t>(i), 5, tokens, gamma, 1e-3);
    kept += token.noisy == 5 ? 1 : 0;
    seen.insert(token.noisy);
    EXPECT_EQ(std::set<int64_t>(token.tokens.begin(), token.tokens.end()).size(), 8u);
    float sum = 0, most = 0;
    for (size_t k = 0; k < 8; ++k) {
      sum += token.weights[k];
      if (token.tokens[k] == token.noisy) most = token.weights[k];
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    for (const float weight : token.weights) EXPECT_LE(weight, most);
  }
  const double chance = alpha + (1 - alpha) / static_cast<double>(tokens);
  const double error = std::sqrt(chance * (1 - chance) / static_cast<double>(draws));
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(draws), chance, 4 * error);
  EXPECT_EQ(seen.size(), static_cast<size_t>(tokens));
  const SoftToken two = draw_soft_token(key, 1, 1, 2, gamma, 1e-3); // fewer tokens than entries
  EXPECT_LT(two.noisy, 2);
}

// In the curriculum the inputs are mixtures with the tokens' noise, and behind it they are tokens.
TEST(GaussianNoise, TheCurriculumOfUniform) {
  const auto model = tiny_model();
  const ObjectiveRef objective =
      tiny_objective("uniform", {{"curriculum", 10}, {"curriculum_temperature", 0.5}});
  PrepareContext context = prepare_context(*objective, model->config());
  const Batch early = objective->prepare(tiny_rows(2, 8), 3, 9, context);
  const Batch late = objective->prepare(tiny_rows(2, 8), 3, 10, context);
  ASSERT_TRUE(early.has("soft_ids"));
  EXPECT_FALSE(late.has("soft_ids"));
  context.held_out = true;
  EXPECT_FALSE(objective->prepare(tiny_rows(2, 8), 3, 9, context).has("soft_ids"));
  for (size_t b = 0; b < 2; ++b) {
    const double gamma = -3.55 + 1.7 * static_cast<double>(early.at("t").as<float>()[b]);
    EXPECT_NEAR(early.at("alpha").as<float>()[b], gaussian_alpha(gamma, 22), 1e-5);
  }
  LossRunner runner(model, objective);
  EXPECT_GT(runner.run(early, 0, 0, nullptr).sum, 0);
  expect_gradient(*model, runner, *objective, early);
  // Mixtures of one token are that token.
  const ObjectiveRef sharp =
      tiny_objective("uniform", {{"curriculum", 10}, {"curriculum_temperature", 1e-6}});
  const Batch soft =
      sharp->prepare(tiny_rows(2, 8), 3, 9, prepare_context(*sharp, model->config()));
  Batch hard = soft;
  for (const char* name : {"soft_ids", "soft_weights", "soft_on"}) hard.remove(name);
  EXPECT_NEAR(runner.run(soft, 0, 0, nullptr).mean(), runner.run(hard, 0, 0, nullptr).mean(), 1e-3);
}

} // namespace
} // namespace dllm::noise

// The likelihood of an answer: what is masked, and the mean over all masks by enumeration.

#include "noise/loss/likelihood.h"

#include "base/error.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::noise {
namespace {

using Ids = std::vector<int32_t>;

TEST(Likelihood, CountsAreSpreadOverTheAnswer) {
  EXPECT_EQ(spread_counts(6, 6, 4), (std::vector<int64_t>{6, 2, 3, 4})); // 6, 7.5, 9, 10.5
  EXPECT_EQ(spread_counts(2, 4, 4), (std::vector<int64_t>{2, 3, 4, 1}));
  EXPECT_EQ(spread_counts(1, 1, 3), (std::vector<int64_t>{1, 1, 1}));
}

TEST(Likelihood, PermutationsDependOnTheRowAlone) {
  const LikelihoodSettings settings{8, 4, 7};
  const LikelihoodGroup first = draw_group(settings, 3, 1, 9),
                        again = draw_group(settings, 3, 1, 9);
  EXPECT_EQ(first.permutations, again.permutations);
  EXPECT_EQ(first.masked, again.masked);
  EXPECT_NE(first.permutations, draw_group(settings, 4, 1, 9).permutations);
  for (std::vector<int32_t> order : first.permutations) {
    std::ranges::sort(order);
    for (int32_t i = 0; i < 9; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

// An answer of two tokens: one masked (either), or both.
TEST(Likelihood, TheMeanIsThatOfAllMasks) {
  LikelihoodRunner runner(tiny_model());
  const Ids prompt = {3, 9, 4}, answer = {5, 11};
  const auto of = [&](int64_t masked, const Ids& order) {
    return runner.run_group(prompt, answer, {{masked}, {order}});
  };
  const double exact = (of(2, {0, 1}) + (of(1, {0, 1}) + of(1, {1, 0})) / 2) / 2;
  const AnswerLikelihood made = runner.run(prompt, answer, {2048, 32, 5});
  EXPECT_EQ(made.tokens, 2);
  EXPECT_EQ(made.samples, 2048);
  EXPECT_GT(made.standard_error, 0);
  EXPECT_NEAR(made.log_likelihood, exact, 4 * made.standard_error);
  EXPECT_LT(made.standard_error, 0.05 * std::abs(exact));
  const AnswerLikelihood again = runner.run(prompt, answer, {2048, 32, 5});
  EXPECT_EQ(again.log_likelihood, made.log_likelihood);
}

TEST(Likelihood, WhatCannotBeScored) {
  LikelihoodRunner runner(tiny_model());
  const Ids prompt = {3}, none, outside = {99};
  EXPECT_EQ(test::error_of([&] { runner.run(prompt, none, {}); }).code(), Code::invalid_argument);
  EXPECT_EQ(test::error_of([&] { runner.run(prompt, outside, {}); }).code(),
            Code::invalid_argument);
}

} // namespace
} // namespace dllm::noise

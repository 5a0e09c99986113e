// Dream's loop: its counts, its confidences, drawing of positions, path planning.

#include "decode/policies/policies.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dllm::decode {
namespace {

using test::expect_error;

Json settings(const std::string& alg, const Json& more = Json::object()) {
  Json all = {{"policy", "dream"}, {"alg", alg}, {"steps", 5}, {"shift", 1}};
  all.update(more);
  return all;
}

// Masks after every step.
std::vector<int64_t> masks_of(Decoder& decoder) {
  std::vector<int64_t> masks;
  for (bool active = true; active;) {
    active = decoder.step() > 0;
    masks.push_back(static_cast<int64_t>(decoder.metric(0, "open")));
  }
  return masks;
}

TEST(Dream, DecidesItsShareOfTheTimes) {
  // 12 masks: floor(12 * 0.1998) = 2, floor(10 * 0.24969) = 2, floor(8 * 0.33278) = 2,
  // floor(6 * 0.49875) = 2, the rest.
  for (const std::string alg : {"entropy", "maskgit_plus", "topk_margin"}) {
    const auto decoder = make_decoder(tiny_model(), settings(alg));
    add(*decoder, {{3, 1, 4}, 1, 12});
    EXPECT_EQ(masks_of(*decoder), (std::vector<int64_t>{10, 8, 6, 4, 0})) << alg;
    EXPECT_EQ(decoder->metric(0, "nfe"), 5);
  }
}

TEST(Dream, FollowsTheScheduleWhenItIsSet) {
  const auto decoder = make_decoder(
      tiny_model(), settings("entropy", {{"plan", "schedule"}, {"schedule", "cosine"}}));
  add(*decoder, {{3, 1, 4}, 1, 12});
  std::vector<int64_t> want;
  int64_t left = 12;
  for (const int64_t count : transfer_counts(*noise::make_schedule("cosine"), 12, 5))
    want.push_back(left -= count);
  EXPECT_EQ(masks_of(*decoder), want);
}

TEST(Dream, AStepWithoutAnyRunsNoPassButCounts) {
  // 3 masks in 8 steps: floor(3 * 0.125) is none.
  const auto decoder = make_decoder(tiny_model(), settings("entropy", {{"steps", 8}}));
  add(*decoder, {{3, 1, 4}, 1, 3});
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "nfe"), 8);
  EXPECT_LT(decoder->request(0).evaluations, 8);
}

TEST(Dream, OpenDllmLeavesMasks) {
  const auto decoder =
      make_decoder(tiny_model(), settings("entropy", {{"compat", "open-dllm"}, {"steps", 4}}));
  add(*decoder, {{3, 1, 4}, 1, 12});
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "done"), 1);
  EXPECT_GT(decoder->metric(0, "open"), 0);
  EXPECT_EQ(decoder->metric(0, "steps"), 4);
}

TEST(Dream, AlgTempDrawsAmongPositions) {
  // Near 0 it takes the surest; high it takes any, by the seed.
  const auto model = tiny_model();
  const auto ids = [&](double alg_temp, int64_t seed) {
    const auto decoder = make_decoder(model, settings("maskgit_plus", {{"alg_temp", alg_temp}}));
    add(*decoder, {{3, 1, 4}, seed, 12});
    decoder->step();
    return decoder->request(0).ids;
  };
  EXPECT_EQ(ids(0, 1), ids(1e-4, 2));
  int64_t other = 0;
  for (int64_t seed = 0; seed < 8; ++seed) other += ids(100, seed) != ids(0, 1);
  EXPECT_GT(other, 4);
}

TEST(Dream, FiltersShapeTheConfidence) {
  // With top_k 1 all are equally sure and the first ones are taken.
  const auto decoder = make_decoder(tiny_model(), settings("maskgit_plus", {{"top_k", 1}}));
  add(*decoder, {{3, 1, 4}, 1, 10});
  decoder->step();
  EXPECT_EQ(decoder->request(0).open_positions(0, 13),
            (std::vector<int64_t>{4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

TEST(Dream, OriginRevealsTheExpectedShare) {
  const auto decoder = make_decoder(tiny_model(), settings("origin", {{"slots", 40}}));
  for (int64_t seed = 0; seed < 40; ++seed) add(*decoder, {{3}, seed, 50});
  decoder->step();
  // 2000 positions, each with 0.1998: 400 of them, deviation 18.
  EXPECT_NEAR(2000 - decoder->metric(-1, "open"), 400, 72);
  decoder->run();
  EXPECT_EQ(decoder->metric(-1, "open"), 0);
}

TEST(P2, MasksAgainAndKeepsItsCount) {
  const auto decoder = make_decoder(tiny_model(), settings("p2", {{"steps", 6}}));
  add(*decoder, {{3, 1, 4}, 1, 24});
  std::vector<State> before = decoder->request(0).states;
  int64_t reopened = 0;
  for (int64_t step = 1; step <= 6; ++step) {
    decoder->step();
    const Request& slot = decoder->request(0);
    EXPECT_EQ(slot.open_count(0, 27), 24 - 4 * step);
    for (size_t i = 0; i < before.size(); ++i) {
      reopened += slot.states[i] == State::masked && before[i] != State::masked;
      EXPECT_EQ(slot.states[i] == State::fixed, i < 3);
      EXPECT_TRUE(step == 6 || slot.states[i] != State::final);
    }
    before = slot.states;
  }
  EXPECT_GT(reopened, 0);
  EXPECT_EQ(decoder->metric(0, "done"), 1);
  for (size_t i = 3; i < before.size(); ++i) EXPECT_EQ(before[i], State::final);
}

TEST(P2, AloneEqualsInsideABatch) {
  const auto model = tiny_model();
  const auto batch = make_decoder(model, settings("p2", {{"temperature", 0.7}}));
  const auto alone = make_decoder(model, settings("p2", {{"temperature", 0.7}}));
  add(*batch, {{9, 2}, 3, 20}), add(*batch, {{3, 1, 4}, 1, 12});
  add(*alone, {{3, 1, 4}, 1, 12});
  batch->run(), alone->run();
  EXPECT_EQ(answer_of(*batch, 1), answer_of(*alone));
}

TEST(Dream, OptionsThatDoNotGoTogether) {
  const auto model = tiny_model();
  expect_error(Code::invalid_argument, "alg_temp 0.5", [&] {
    make_decoder(model, settings("origin", {{"alg_temp", 0.5}}));
  });
  expect_error(Code::invalid_argument, "alg p2 has its own plan", [&] {
    make_decoder(model, settings("p2", {{"plan", "schedule"}}));
  });
}

} // namespace
} // namespace dllm::decode

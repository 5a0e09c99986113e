// Which positions one step of a confidence rule decides.

#include "decode/policies/policies.h"
#include "unit/decode/requests.h"
#include "unit/decode/sessions.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::decode {
namespace {

using Positions = std::vector<int64_t>;

Positions decides(const std::string& policy, const Json& own, const std::vector<double>& sure) {
  Bench bench(policy, static_cast<int64_t>(sure.size()), own);
  return bench.step(probabilities(sure));
}

TEST(Threshold, DecidesAllThatAreSureAndAtLeastTheSurest) {
  const std::vector<double> sure = {0.2, 0.95, 0.4, 0.9, 0.89};
  EXPECT_EQ(decides("threshold", {{"threshold", 0.9}}, sure), (Positions{1, 3}));
  EXPECT_EQ(decides("threshold", {{"threshold", 0.3}}, sure), (Positions{1, 2, 3, 4}));
  EXPECT_EQ(decides("threshold", {{"threshold", 1.0}}, sure), (Positions{1}));
}

TEST(Threshold, TiesAreTheFirstOneOrAllNearTheBest) {
  const std::vector<double> sure = {0.2, 0.5, 0.499995, 0.4};
  EXPECT_EQ(decides("threshold", Json::object(), sure), (Positions{1}));
  EXPECT_EQ(decides("threshold", {{"ties", "near_best"}}, sure), (Positions{1, 2}));
}

// 6 positions in 3 steps: 2 a step. The first step is sure of one: the second may decide 3.
TEST(Threshold, ABudgetPassesOnWhatAStepLeaves) {
  Bench bench("threshold", 6, {{"threshold", 0.5}, {"budget", true}, {"steps", 3}});
  EXPECT_EQ(bench.step(probabilities({0.9, 0.1, 0.2, 0.3, 0.2, 0.1})), (Positions{0}));
  EXPECT_EQ(bench.step(probabilities({0, 0.9, 0.8, 0.7, 0.95, 0.6})), (Positions{1, 2, 4}));
  EXPECT_EQ(bench.step(probabilities({0, 0, 0, 0.1, 0, 0.2})), (Positions{5}));
  EXPECT_EQ(bench.step(probabilities({0, 0, 0, 0.1, 0, 0})), (Positions{3})); // past the plan
  EXPECT_FALSE(bench.slot.active());
}

// Ranks need 0, 1 - 1 / 3, 1 - 1 / 4, 1 - 1 / 5 with factor 1.
TEST(Factor, CountsRanksOrStopsAtTheFirstThatFails) {
  const std::vector<double> sure = {0.9, 0.6, 0.95, 0.5}; // 2 pass: 0.95 and 0.9
  EXPECT_EQ(decides("factor", {{"factor", 1.0}}, sure), (Positions{0, 2}));
  EXPECT_EQ(decides("factor", {{"factor", 0.0}}, sure), (Positions{2}));
  // Only the last of three fails: the published scan takes it all the same.
  const std::vector<double> last = {0.9, 0.1, 0.95};
  EXPECT_EQ(decides("factor", {{"ranks", "prefix"}}, last), (Positions{0, 2}));
  EXPECT_EQ(decides("factor", {{"ranks", "scan"}}, last), (Positions{0, 1, 2}));
  // factor 2.4: ranks need 0, 0.2, 0.4, 0.52, 0.6, 0.657. Probabilities fall, needs rise: a rank
  // that passes behind one that fails is impossible, so count and prefix agree.
  const std::vector<double> many = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
  EXPECT_EQ(decides("factor", {{"factor", 2.4}}, many), (Positions{0, 1, 2}));
  EXPECT_EQ(decides("factor", {{"factor", 2.4}, {"ranks", "prefix"}}, many), (Positions{0, 1, 2}));
}

// .95 .9 .85: L - U is .95 - .05 - 1 * ... : n = 1: 0 - .05; n = 2: .855 - .1 - .1 = .655;
// n = 3: .72675 - .0225 - .15 = .55425; n = 4 (.4): .2907 - .216 - .6 < 0.
TEST(Frechet, DecidesTheWidestProfile) {
  const std::vector<double> sure = {0.85, 0.4, 0.95, 0.9};
  EXPECT_EQ(decides("frechet", {{"delta", 0.5}}, sure), (Positions{0, 2, 3}));
  EXPECT_EQ(decides("frechet", {{"delta", 0.6}}, sure), (Positions{2, 3}));
  EXPECT_EQ(decides("frechet", {{"delta", 0.7}}, sure), (Positions{2}));
}

// Worked by hand: entropies .05 .1 .2 .9, sum without the largest 0, .05, .15, .35.
TEST(EntropyBound, StopsWhereTheEntropiesAddUp) {
  const auto oracle = [](const Request& slot, int64_t position) {
    Prediction p = probabilities({0.5, 0.5, 0.5, 0.5})(slot, position);
    p.entropy = std::array{0.9f, 0.05f, 0.2f, 0.1f}[static_cast<size_t>(position)];
    return p;
  };
  const auto decided = [&](double gamma) {
    Bench bench("entropy_bound", 4, {{"gamma", gamma}});
    return bench.step(oracle);
  };
  EXPECT_EQ(decided(0.1501), (Positions{1, 2, 3}));
  EXPECT_EQ(decided(0.0501), (Positions{1, 3}));
  EXPECT_EQ(decided(0), (Positions{1}));
  EXPECT_EQ(decided(1), (Positions{0, 1, 2, 3}));
}

TEST(Hierarchy, EveryRunGivesItsSurest) {
  Bench bench("hierarchy", 7, {{"threshold", 0.9}, {"low_threshold", 0.3}});
  bench.slot.decide(3, 5, 1, State::fixed); // runs 0 to 2 and 4 to 6
  EXPECT_EQ(bench.step(probabilities({0.2, 0.5, 0.4, 0, 0.92, 0.91, 0.3})), (Positions{1, 4, 5}));
  Bench low("hierarchy", 7, {{"threshold", 0.9}, {"low_threshold", 0.6}});
  low.slot.decide(3, 5, 1, State::fixed);
  EXPECT_EQ(low.step(probabilities({0.2, 0.5, 0.4, 0, 0.3, 0.1, 0.3})), (Positions{1}));
}

// Token 1 stays at 0.45 while the other position wavers: credit lifts the steady one.
TEST(Credit, SteadyPredictionsPassEarlier) {
  Bench bench("credit", 3, {{"threshold", 0.6}});
  const auto oracle = [](const Request& slot, int64_t position) {
    Prediction p;
    p.position = position;
    const bool odd = slot.steps % 2 == 1;
    p.token = p.argmax = position == 2 && odd ? 2 : 1;
    p.probability = p.max_probability = position == 0 ? 0.9f : 0.45f;
    p.top_ids = {p.token, 3 - p.token};
    p.top_probs = {p.probability, position == 0 ? 0.05f : 0.35f};
    return p;
  };
  EXPECT_EQ(bench.step(oracle), (Positions{0}));
  EXPECT_EQ(bench.step(oracle), (Positions{1}));
  // By hand: credit c of one step 0.45^0.2 = .85241, then 0.8 c + c; fused .45 (1 + 1.8 c)^.7 over
  // 1 + the gain.
  const double gained = 0.45 * std::pow(1 + 1.8 * std::pow(0.45, 0.2), 0.7);
  EXPECT_NEAR(bench.slot.confidence[1], gained / (1 + gained - 0.45), 1e-5);
}

TEST(ConfidenceRules, RefuseARequestThatOnlyPredictsTheMask) {
  for (const std::string policy : {"threshold", "factor", "frechet", "hierarchy", "credit"}) {
    Bench bench(policy, 3);
    test::expect_error(Code::failed_precondition, "all 3 open positions", [&] {
      bench.step([](const Request& slot, int64_t position) {
        Prediction p = probabilities({0.9, 0.9, 0.9})(slot, position);
        p.token = p.argmax = kToyMask;
        return p;
      });
    });
  }
}

TEST(EarlyExit, DecidesTheRestOnceAllAreSure) {
  Bench bench("low_confidence", 6, {{"steps", 6}, {"early_exit", 0.7}});
  EXPECT_EQ(bench.step(probabilities({0.9, 0.8, 0.8, 0.6, 0.8, 0.8})), (Positions{0}));
  EXPECT_EQ(bench.step(probabilities({0, 0.8, 0.8, 0.7001, 0.8, 0.8})), (Positions{1, 2, 3, 4, 5}));
  EXPECT_FALSE(bench.slot.active());
}

TEST(EvenCounts, AreLLaDAs) {
  EXPECT_EQ(even_counts(10, 4), (Positions{3, 3, 2, 2}));
  EXPECT_EQ(even_counts(7, 3), (Positions{3, 2, 2}));
  EXPECT_EQ(even_counts(3, 5), (Positions{1, 1, 1}));
  EXPECT_EQ(even_counts(0, 5), (Positions{}));
}

class OwnPolicies : public ::testing::TestWithParam<std::string> {};

// Also where decisions are taken back: a block's K and V are kept once it is over.
TEST_P(OwnPolicies, GiveTheSameTokensWithAnExactCache) {
  const auto model = tiny_model(2);
  std::vector<Answer> answers;
  for (const char* cache : {"exact", "none"}) {
    const auto decoder = make_decoder(model, {{"policy", GetParam()},
                                              {"steps", 20},
                                              {"block_length", 5},
                                              {"attention", "block_causal"},
                                              {"cache", cache},
                                              {"temperature", 0.9}});
    add(*decoder, {{9, 2, 6, 5, 3, 5, 8}, 7, 18});
    decoder->run();
    answers.push_back(answer_of(*decoder));
  }
  EXPECT_EQ(answers[0], answers[1]);
}

// The answer's length and the states, whatever cache and shift.
TEST_P(OwnPolicies, EndWithApproximateCaches) {
  for (const char* cache : {"prefix", "dual"}) {
    for (const int shift : {0, 1}) {
      const auto decoder = make_decoder(tiny_model(), {{"policy", GetParam()},
                                                       {"steps", 12},
                                                       {"block_length", 4},
                                                       {"shift", shift},
                                                       {"attention", "bidirectional"},
                                                       {"cache", cache},
                                                       {"temperature", 0.9}});
      add(*decoder, {{9, 2, 6}, 7, 12});
      decoder->run();
      EXPECT_EQ(decoder->metric(0, "open"), 0);
      EXPECT_EQ(decoder->metric(0, "decided"), 12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, OwnPolicies,
                         ::testing::Values("confidence_remasking", "credit", "ddim",
                                           "entropy_bound", "factor", "first_hitting", "frechet",
                                           "hierarchy", "remdm", "threshold"),
                         [](const auto& info) { return info.param; });

// The pass that fills the cache is the only one that predicts a block's first token under shift 1.
TEST(ApproximateCache, ShiftedBlocksDecideTheirFirstTokenAlone) {
  const auto decoder = make_decoder(tiny_model(), {{"steps", 8},
                                                   {"block_length", 4},
                                                   {"shift", 1},
                                                   {"attention", "bidirectional"},
                                                   {"cache", "dual"}});
  add(*decoder, {{9, 2, 6}, 7, 8});
  decoder->step();
  EXPECT_EQ(decoder->request(0).open_positions(0, 11), (Positions{4, 5, 6, 7, 8, 9, 10}));
  decoder->step();
  EXPECT_LT(decoder->metric(0, "open"), 7);
  EXPECT_FALSE(decoder->request(0).is_open(3));
}

// Blocks begin behind the prompt also when given tokens stand behind the open ones.
TEST(PromptLength, BlocksBeginBehindIt) {
  const auto decoder = make_decoder(tiny_model(), {{"steps", 4}, {"block_length", 4}});
  const std::vector<int32_t> canvas = {3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7};
  const std::vector<uint8_t> fixed = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  decoder->add(canvas, fixed, slot_options({{"prompt_length", 2}}));
  EXPECT_EQ(decoder->request(0).block_begin(), 2);
  decoder->step(), decoder->step();
  EXPECT_EQ(decoder->request(0).open_positions(0, 12), (Positions{6, 7, 8, 9}));
  test::expect_error(Code::invalid_argument, "prompt_length 3", [&] {
    decoder->add(canvas, fixed, slot_options({{"prompt_length", 3}}));
  });
}

TEST(DecoderOptions, RefuseWhatDoesNotFit) {
  test::expect_error(Code::invalid_argument, "schedule linear has no discrete times", [] {
    make_decoder(tiny_model(), {{"schedule_steps", 9}});
  });
  Options remdm(decoder_schema("remdm"));
  remdm.set_f64("t_off", 0.6);
  test::expect_error(Code::invalid_argument, "t_off 0.6 is not below t_on 0.55",
                     [&] { Decoder(tiny_model(), remdm); });
}

} // namespace
} // namespace dllm::decode

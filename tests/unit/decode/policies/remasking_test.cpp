// Samplers that take decisions back, and those whose law is known: shares of clean tokens, exact
// joint laws, published numbers.

#include "unit/decode/sessions.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace dllm::decode {
namespace {

// The same number for every position and step, or one per step.
class FixedDraws final : public RandomSource {
public:
  explicit FixedDraws(std::vector<float> by_step) : by_step_(std::move(by_step)) {}
  float uniform(const Request& slot, int64_t, int) const override {
    return by_step_[static_cast<size_t>(slot.steps) % by_step_.size()];
  }

private:
  std::vector<float> by_step_;
};

Oracle sure() {
  return probabilities(std::vector<double>(64, 0.5));
}

struct Sampler {
  std::string name, policy;
  Json options;
};

const std::vector<Sampler> kExactShares = {
    {"ancestral", "ancestral", Json::object()},
    {"ddim", "ddim", Json::object()},
    {"remdm_cap", "remdm", {{"variant", "cap"}, {"eta", 0.1}}},
    {"remdm_rescale", "remdm", {{"variant", "rescale"}, {"eta", 0.5}}},
    {"remdm_loop", "remdm", {{"variant", "loop"}, {"eta", 0.05}}},
};

double loop_alpha(double t) {
  if (t > 0.55) return 0.9 * (1 - t) / 0.45;
  return t > 0.05 ? 0.9 : 1 - t * 0.1 / 0.05;
}

class CleanShare : public ::testing::TestWithParam<Sampler> {};

// After k of n steps a position is clean with probability alpha(1 - k / n): 4 standard errors.
TEST_P(CleanShare, FollowsTheSchedule) {
  constexpr int64_t kSteps = 12, kRequests = 160, kLength = 40;
  for (const char* name : {"linear", "cosine"}) {
    const auto schedule = noise::make_schedule(name);
    std::vector<std::unique_ptr<Bench>> all;
    Json own = GetParam().options;
    own["steps"] = kSteps, own["schedule"] = name;
    for (uint64_t seed = 0; seed < kRequests; ++seed)
      all.push_back(std::make_unique<Bench>(GetParam().policy, kLength, own, seed + 500));
    for (int64_t k = 1; k <= kSteps; ++k) {
      const double total = kRequests * kLength, s = 1 - static_cast<double>(k) / kSteps;
      double open = 0;
      for (const auto& bench : all) bench->step(sure()), open += static_cast<double>(bench->open());
      const double alpha = GetParam().name == "remdm_loop" ? loop_alpha(s) : schedule->alpha(s);
      EXPECT_NEAR(1 - open / total, alpha, 4 * std::sqrt(alpha * (1 - alpha) / total) + 1e-9)
          << name << " step " << k;
    }
    for (const auto& bench : all) {
      EXPECT_FALSE(bench->slot.active());
      EXPECT_EQ(bench->slot.decided, kLength);
      for (const State state : bench->slot.states) EXPECT_EQ(state, State::final);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Remasking, CleanShare, ::testing::ValuesIn(kExactShares),
                         [](const auto& info) { return info.param.name; });

// A joint law of three tokens out of {0, 1}, far from independent.
constexpr std::array<double, 8> kJoint = {0.30, 0.02, 0.03, 0.15, 0.05, 0.20, 0.05, 0.20};

// The exact conditional of one position given what is visible.
Prediction exact(const Request& slot, int64_t position) {
  std::array<double, 2> weight = {0, 0};
  for (size_t word = 0; word < 8; ++word) {
    bool fits = true;
    for (size_t i = 0; i < 3; ++i)
      fits =
          fits && (slot.ids[i] == kToyMask || slot.ids[i] == static_cast<int32_t>(word >> i & 1));
    if (fits) weight[word >> position & 1] += kJoint[word];
  }
  const double one = weight[1] / (weight[0] + weight[1]);
  Prediction p;
  p.position = position;
  p.token = position_uniform(slot, position, 0) < one ? 1 : 0;
  p.probability = static_cast<float>(p.token == 1 ? one : 1 - one);
  p.argmax = one > 0.5 ? 1 : 0;
  p.max_probability = static_cast<float>(std::max(one, 1 - one));
  return p;
}

class ExactLaw : public ::testing::TestWithParam<Sampler> {};

// 1 % point of chi-square with 7 degrees: 18.48 (any table). Seeds are fixed.
TEST_P(ExactLaw, IsReproducedWithAnExactDenoiser) {
  constexpr int64_t kRequests = 3000;
  std::array<double, 8> counts{};
  for (uint64_t seed = 0; seed < kRequests; ++seed) {
    Bench bench(GetParam().policy, 3, GetParam().options, seed);
    bench.run(exact);
    size_t word = 0;
    for (size_t i = 0; i < 3; ++i) word |= static_cast<size_t>(bench.slot.ids[i]) << i;
    ++counts[word];
  }
  double chi_square = 0;
  for (size_t word = 0; word < 8; ++word) {
    const double want = kRequests * kJoint[word];
    chi_square += (counts[word] - want) * (counts[word] - want) / want;
  }
  EXPECT_LT(chi_square, 18.48);
}

INSTANTIATE_TEST_SUITE_P(
    Remasking, ExactLaw,
    ::testing::Values(
        Sampler{"first_hitting", "first_hitting", Json::object()},
        Sampler{"ancestral", "ancestral", {{"steps", 400}}},
        Sampler{"remdm_cap", "remdm", {{"steps", 400}, {"eta", 0.01}}},
        Sampler{"remdm_rescale", "remdm", {{"steps", 400}, {"variant", "rescale"}, {"eta", 0.02}}}),
    [](const auto& info) { return info.param.name; });

// Deciding all three at once does not know the joint law: the test above would see it.
TEST(ExactLaw, OneStepIsNotEnough) {
  std::array<double, 8> counts{};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Bench bench("ancestral", 3, {{"steps", 1}}, seed);
    bench.run(exact);
    ++counts[static_cast<size_t>(bench.slot.ids[0] + 2 * bench.slot.ids[1] +
                                 4 * bench.slot.ids[2])];
  }
  EXPECT_GT(std::abs(counts[1] - 3000 * kJoint[1]), 4 * std::sqrt(3000 * kJoint[1]));
}

// Whether the step after the warm-up reveals a position whose draw is `uniform`.
bool reveals(const Json& own, int64_t warm_up, float uniform) {
  std::vector<float> draws(static_cast<size_t>(warm_up), 0.9999f); // nothing is revealed
  draws.push_back(uniform);
  const FixedDraws source(draws);
  Bench bench("remdm", 1, own, 0, &source);
  for (int64_t i = 0; i < warm_up; ++i) bench.step(sure());
  EXPECT_EQ(bench.open(), 1);
  bench.step(sure());
  return bench.open() == 0;
}

// Worked by hand: linear. Third of five steps: alpha from .4 to .6; sigma .1 reveals with .4.
// Eighth of ten: from .7 to .8; half the largest sigma reveals with 2/3. Loop waiting at .9: .18.
TEST(ReMdm, RevealsWithThePublishedChances) {
  const auto between = [](const Json& own, int64_t warm_up, float chance) {
    EXPECT_TRUE(reveals(own, warm_up, chance - 1e-4f)) << own.dump();
    EXPECT_FALSE(reveals(own, warm_up, chance + 1e-4f)) << own.dump();
  };
  between({{"steps", 5}, {"variant", "cap"}, {"eta", 0.1}}, 2, 0.4f);
  between({{"steps", 5}, {"variant", "cap"}, {"eta", 0.25}}, 2, 0.5f);
  between({{"steps", 5}, {"variant", "cap"}, {"eta", 0.4}}, 2, 0.6f);
  between({{"steps", 5}, {"variant", "cap"}, {"eta", 0.5}}, 2, 2.0f / 3);
  between({{"steps", 5}, {"variant", "conf"}}, 2, 1.0f / 3);
  between({{"steps", 10}, {"variant", "rescale"}, {"eta", 0.5}}, 7, 2.0f / 3);
  between({{"steps", 10}, {"variant", "loop"}, {"eta", 0.02}}, 6, 0.18f); // t = .4
}

// conf: chances of masking again are the largest sigma times the softmax of -psi.
TEST(ReMdm, DoubtfulTokensAreMaskedAgainMoreOften) {
  const std::vector<double> psi = {0.9, 0.5, 0.2};
  const std::array<double, 3> weights = {0.22194714, 0.33110622, 0.44694665};
  // Ten steps: in the eighth t = .3, s = .2, the largest sigma .28571429.
  for (size_t i = 0; i < 3; ++i) {
    for (const double side : {-1e-4, 1e-4}) {
      // All are revealed in the first step, keep in between, then the draw to test.
      std::vector<float> draws = {0.0f, 0.9999f, 0.9999f, 0.9999f, 0.9999f, 0.9999f, 0.9999f};
      draws.push_back(static_cast<float>(weights[i] * 0.28571429 + side));
      const FixedDraws source(draws);
      Bench bench("remdm", 3, {{"steps", 10}, {"variant", "conf"}}, 0, &source);
      for (int step = 0; step < 7; ++step) bench.step(probabilities(psi));
      ASSERT_EQ(bench.open(), 0);
      bench.step(probabilities(psi));
      EXPECT_EQ(bench.slot.is_open(static_cast<int64_t>(i)), side < 0) << i;
    }
  }
}

// Worked by hand: from 1 with (n, u) = (4, .5), (3, .25), (2, .81), (1, .3).
TEST(FirstHitting, DrawsThePublishedTimes) {
  const FixedDraws draws({0.5f, 0.25f, 0.81f, 0.3f});
  Bench bench("first_hitting", 4, Json::object(), 0, &draws);
  for (const double time : {0.84089642, 0.52973155, 0.47675839, 0.14302752}) {
    EXPECT_NEAR(bench.next_pass().time, time, 1e-6);
    EXPECT_EQ(bench.step(sure()).size(), 1u);
  }
  EXPECT_FALSE(bench.slot.active());
}

// Worked by hand: masked after every step.
TEST(ConfidenceRemasking, MasksAsManyAsPublished) {
  const auto counts = [](const std::string& masked, int64_t length, int64_t steps) {
    Bench bench("confidence_remasking", length, {{"masked", masked}, {"steps", steps}}, 3);
    std::vector<int64_t> open;
    while (bench.slot.active()) bench.step(sure()), open.push_back(bench.open());
    return open;
  };
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(counts("linear", 16, 8), (Counts{14, 12, 10, 8, 6, 4, 2, 0}));
  EXPECT_EQ(counts("cosine", 16, 8), (Counts{15, 14, 13, 11, 8, 6, 3, 0}));
  EXPECT_EQ(counts("sqrt", 16, 8), (Counts{10, 8, 6, 4, 3, 2, 1, 0}));
  EXPECT_EQ(counts("linear", 10, 4), (Counts{7, 5, 2, 0}));
  EXPECT_EQ(counts("cosine", 10, 4), (Counts{9, 7, 3, 0}));
  EXPECT_EQ(counts("sqrt", 10, 4), (Counts{5, 2, 1, 0}));
}

// Position 0 is decided with 0.4 when nothing better is there; as others become surer it is masked
// again and its token repaired.
TEST(ConfidenceRemasking, RepairsEarlyTokensUnlessTheyStay) {
  const auto oracle = [](const Request& slot, int64_t position) {
    Prediction p = probabilities({0.4, 0.3, 0.2, 0.1})(slot, position);
    if (slot.steps > 0) p.probability = 0.9f, p.token = 2;
    return p;
  };
  const auto first = [&](const std::string& revise) {
    Bench bench("confidence_remasking", 4, {{"revise", revise}, {"steps", 4}});
    bench.run(oracle);
    return bench.slot.ids[0];
  };
  EXPECT_EQ(first("stored"), 2);
  EXPECT_EQ(first("none"), 1);
}

} // namespace
} // namespace dllm::decode

// A model that returns the mask token: its position stays open, and every request comes to an end.

#include "unit/decode/requests.h"
#include "unit/decode/sessions.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::decode {
namespace {

struct MaskRule {
  std::string name, policy;
  Json own = Json::object();
  int64_t most = 12; // steps of 12 positions
  friend void PrintTo(const MaskRule& kind, std::ostream* out) { *out << kind.name; }
};

class PredictedMask : public ::testing::TestWithParam<MaskRule> {
protected:
  // A token that is the mask with this chance, by the seed.
  Oracle oracle(double masks, uint64_t seed) {
    return [=](const Request& slot, int64_t position) {
      const auto number = [&](int word) {
        return seeded_uniform(seed, slot.steps, position, word);
      };
      Prediction p;
      p.position = position;
      p.token = number(5) < masks ? kToyMask : static_cast<int32_t>(number(6) * kToyMask);
      p.argmax = p.token;
      p.probability = p.max_probability = p.shaped_probability = p.shaped_margin = number(7);
      p.shaped_entropy = p.entropy = 1 - number(7);
      p.top_ids = {p.token, p.token == 0 ? 1 : 0};
      p.top_probs = {number(7), 0.0f};
      return p;
    };
  }
  std::unique_ptr<Bench> bench(uint64_t seed) {
    Json own = {{"suppress_mask", false}};
    own.update(GetParam().own);
    return std::make_unique<Bench>(GetParam().policy, 12, own, seed);
  }
};

void expect_masks_open(const Request& slot) {
  for (int64_t i = 0; i < slot.length(); ++i)
    EXPECT_EQ(slot.is_open(i), slot.ids[static_cast<size_t>(i)] == kToyMask) << "position " << i;
}

TEST_P(PredictedMask, StaysOpen) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto made = bench(seed);
    const Oracle said = oracle(0.1 * static_cast<double>(seed % 10), seed);
    int64_t steps = 0;
    for (; made->slot.active() && steps < 200; ++steps) {
      made->step(said);
      expect_masks_open(made->slot);
      EXPECT_EQ(made->slot.decided, made->slot.length() - made->open()) << "seed " << seed;
    }
    EXPECT_FALSE(made->slot.active()) << "seed " << seed;
    if (seed % 10 == 0) {
      EXPECT_EQ(made->open(), 0) << "seed " << seed;
    }
  }
}

TEST_P(PredictedMask, ForEverComesToAnEnd) {
  const auto made = bench(3);
  const Oracle said = oracle(1, 3);
  int64_t steps = 0;
  for (; made->slot.active() && steps < 200; ++steps) made->step(said);
  EXPECT_LE(steps, GetParam().most);
  EXPECT_EQ(made->open(), 12);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, PredictedMask,
    ::testing::Values(
        MaskRule{"low_confidence", "low_confidence", {{"steps", 5}}, 5},
        MaskRule{"blocks", "low_confidence", {{"steps", 9}, {"block_length", 5}}, 9},
        MaskRule{"even", "low_confidence", {{"steps", 7}, {"plan", "even"}}, 7},
        MaskRule{"random", "random", {{"steps", 6}, {"schedule", "cosine"}}, 6},
        MaskRule{"bd3lm", "bd3lm", {{"steps", 8}, {"block_length", 4}}, 9},
        MaskRule{"dream", "dream", {{"steps", 7}}, 7},
        MaskRule{"dream_schedule", "dream", {{"steps", 7}, {"plan", "schedule"}}, 7},
        MaskRule{"dream_origin", "dream", {{"steps", 7}, {"alg", "origin"}}, 7},
        MaskRule{"dream_p2", "dream", {{"steps", 7}, {"alg", "p2"}}, 7},
        MaskRule{"ancestral", "ancestral", {{"steps", 10}}, 10},
        MaskRule{"first_hitting", "first_hitting"}, MaskRule{"remdm", "remdm", {{"steps", 10}}, 10},
        MaskRule{"ddim", "ddim", {{"steps", 10}}, 10},
        MaskRule{"stored", "confidence_remasking", {{"steps", 6}}, 6},
        MaskRule{"none", "confidence_remasking", {{"steps", 6}, {"revise", "none"}}, 6},
        MaskRule{"rescore", "confidence_remasking", {{"steps", 6}, {"revise", "rescore"}}, 6},
        MaskRule{"llada2", "llada2", {{"block_length", 6}, {"steps_per_block", 4}}, 8},
        MaskRule{"llada21",
                 "llada2",
                 {{"block_length", 6},
                  {"num_to_transfer", 1},
                  {"editing_threshold", 0.5},
                  {"max_post_steps", 3}},
                 20}),
    [](const auto& info) { return info.param.name; });

TEST(PlannedMask, CountsAsTheFillOfItsStep) {
  Bench bench("low_confidence", 4, {{"steps", 4}, {"suppress_mask", false}});
  const auto surest = [](int64_t sure, int32_t token) {
    return [=](const Request&, int64_t position) {
      Prediction p;
      p.position = position;
      p.token = p.argmax = token;
      p.probability = p.max_probability = position == sure ? 0.9f : 0.5f;
      return p;
    };
  };
  EXPECT_TRUE(bench.step(surest(2, kToyMask)).empty());
  EXPECT_EQ(bench.step(surest(0, 7)), (std::vector<int64_t>{0}));
  EXPECT_EQ(bench.step(surest(2, 8)), (std::vector<int64_t>{2}));
  EXPECT_EQ(bench.step(surest(1, 9)), (std::vector<int64_t>{1}));
  EXPECT_FALSE(bench.slot.active()); // its plan is over, as in the source
  EXPECT_EQ(bench.slot.ids, (std::vector<int32_t>{7, 9, 8, kToyMask}));
}

} // namespace
} // namespace dllm::decode

// LLaDA2: its grid, its quotas, its edits.

#include "unit/decode/requests.h"
#include "unit/decode/sessions.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::decode {
namespace {

using test::expect_error;

Json settings(const Json& more = Json::object()) {
  Json all = {{"policy", "llada2"}, {"block_length", 8}, {"steps_per_block", 4}};
  all.update(more);
  return all;
}

// How many positions every step decided.
std::vector<int64_t> counts_of(Decoder& decoder) {
  std::vector<int64_t> counts;
  auto open = static_cast<int64_t>(decoder.metric(0, "open"));
  for (bool active = true; active;) {
    active = decoder.step() > 0;
    const auto left = static_cast<int64_t>(decoder.metric(0, "open"));
    counts.push_back(open - left);
    open = left;
  }
  return counts;
}

TEST(Llada2, TheFirstBlockHoldsTheEndOfThePrompt) {
  const auto decoder = make_decoder(tiny_model(), settings());
  add(*decoder, {{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, 1, 13});
  std::vector<int64_t> begins;
  decoder->run([&](const Event& event) {
    if (event.kind() == EventKind::block) begins.push_back(std::get<int64_t>(*event.find("begin")));
    return dllm::Answer::go_on;
  });
  EXPECT_EQ(begins, (std::vector<int64_t>{8, 16}));
}

TEST(Llada2, AQuotaIsAnEvenShareOfTheBlock) {
  // Nothing is above threshold 1.
  const auto decoder =
      make_decoder(tiny_model(), settings({{"threshold", 1.0}, {"steps_per_block", 3}}));
  add(*decoder, {{}, 1, 8});
  EXPECT_EQ(counts_of(*decoder), (std::vector<int64_t>{3, 3, 2}));
}

TEST(Llada2, TheThresholdDecidesAtOnce) {
  const auto decoder = make_decoder(tiny_model(), settings({{"threshold", 0.0}}));
  add(*decoder, {{1, 2}, 1, 14});
  EXPECT_EQ(counts_of(*decoder), (std::vector<int64_t>{6, 8}));
}

TEST(Llada2, MinimalTopkBoundsTheSteps) {
  const auto decoder = make_decoder(
      tiny_model(), settings({{"threshold", 1.0}, {"steps_per_block", 8}, {"minimal_topk", 4}}));
  add(*decoder, {{}, 1, 8});
  EXPECT_EQ(counts_of(*decoder), (std::vector<int64_t>{4, 4}));
}

class Editing : public ::testing::Test {
protected:
  std::shared_ptr<model::Model> model_ = tiny_model();
  Json edits_ = settings({{"threshold", 0.3}, {"editing_threshold", 0.1}, {"num_to_transfer", 2}});
};

TEST_F(Editing, ReplacesTokensOfTheOpenBlockOnly) {
  const auto decoder = make_decoder(model_, edits_);
  const std::vector<int32_t> prompt = {3, 1, 4};
  add(*decoder, {prompt, 1, 21});
  std::vector<int32_t> before = decoder->request(0).ids;
  int64_t replaced = 0;
  for (bool active = true; active;) {
    const int64_t begin = decoder->request(0).block_begin();
    active = decoder->step() > 0;
    const Request& slot = decoder->request(0);
    for (int64_t i = 0; i < slot.length(); ++i) {
      const auto at = static_cast<size_t>(i);
      const bool changed = slot.ids[at] != before[at];
      if (i < begin || i < 3) {
        EXPECT_FALSE(changed) << i;
      }
      replaced += changed && before[at] != kMask;
      if (slot.states[at] == State::provisional) {
        EXPECT_EQ(i / 8, slot.block) << i;
      }
    }
    before = slot.ids;
  }
  EXPECT_GT(replaced, 0);
  for (size_t i = 3; i < before.size(); ++i) {
    EXPECT_EQ(decoder->request(0).states[i], State::final);
    EXPECT_NE(before[i], kMask);
  }
}

TEST_F(Editing, EndsAfterMaxPostSteps) {
  std::vector<double> steps;
  for (const int64_t most : {0, 1, 16}) {
    Json own = edits_;
    own["max_post_steps"] = most;
    const auto decoder = make_decoder(model_, own);
    add(*decoder, {{}, 1, 8});
    decoder->run();
    steps.push_back(decoder->metric(0, "steps"));
    EXPECT_EQ(decoder->metric(0, "open"), 0);
  }
  EXPECT_EQ(steps[1], steps[0] + 1);
  EXPECT_GE(steps[2], steps[1]);
  EXPECT_LE(steps[2], steps[0] + 16);
}

TEST_F(Editing, TheHostMayDecide) {
  const auto decoder = make_decoder(model_, edits_);
  add(*decoder, {{1, 2}, 1, 6});
  decoder->predict();
  const std::vector<int64_t> positions = {2, 3, 4, 5, 6, 7};
  decoder->commit(0, positions, std::vector<int32_t>{4, 4, 4, 4, 4, 4});
  EXPECT_EQ(decoder->metric(0, "done"), 1);
}

TEST(Llada2, APenaltyLowersTheLeftToken) {
  const auto model = tiny_model();
  const std::vector<int32_t> prompt = {3, 1, 4};
  const double penalty = 1.5;
  Options options(model::forward_schema());
  options.set_json({{"attention", "block_causal"}, {"block_length", 8}});
  std::vector<int32_t> canvas = prompt;
  canvas.resize(8, kMask);
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, 8}, canvas));
  const Tensor logits = model::forward(*model, batch, options).at("logits");
  double best = 0, sum = 0;
  int32_t token = -1;
  for (int32_t id = 0; id < kVocab; ++id) { // the mask token is suppressed
    if (id == kMask) continue;
    const double logit = logits.as<float>()[static_cast<size_t>(3 * kVocab + id)];
    const double own = std::exp(logit - (id == prompt[2] ? penalty : 0));
    sum += own;
    if (own > best) token = id;
    best = std::max(best, own);
  }
  const auto decoder =
      make_decoder(model, settings({{"threshold", 0.0}, {"left_penalty", penalty}}));
  add(*decoder, {prompt, 1, 5});
  decoder->step();
  EXPECT_EQ(decoder->request(0).ids[3], token);
  EXPECT_NEAR(decoder->request(0).confidence[3], best / sum, 1e-5);
}

TEST(Llada2, APenalizedTokenIsNotRepeatedInsideABlock) {
  Bench bench("llada2", 8,
              {{"block_length", 4},
               {"threshold", 1},
               {"num_to_transfer", 1},
               {"left_penalty", 2},
               {"attention", "block_causal"}});
  // Token 1 has 0.6 + position / 100 everywhere, token 2 has 0.3: behind a 1 it is 0.3 / (1 - 0.6
  // (1 - e^-2)) of token 2.
  bench.run([](const Request& slot, int64_t position) {
    Prediction p = probabilities(std::vector<double>(8, 0.6))(slot, position);
    p.shaped_probability = p.top_probs[0] = 0.6f - 0.01f * static_cast<float>(position);
    p.top_ids = {1, 2};
    p.top_probs.push_back(0.3f);
    const bool after_one = position > 0 && slot.ids[static_cast<size_t>(position - 1)] == 1;
    p.left_probability = after_one ? p.top_probs[0] : 0.0f;
    return p;
  });
  EXPECT_EQ(bench.slot.ids, (std::vector<int32_t>{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_NEAR(bench.slot.confidence[1], 0.3 / (1 - 0.59 * (1 - std::exp(-2.0))), 1e-6);
}

TEST(Llada2, OptionsThatDoNotGoTogether) {
  const auto model = tiny_model();
  expect_error(Code::invalid_argument, "block_causal attention, not bidirectional", [&] {
    make_decoder(model, settings({{"attention", "bidirectional"}}));
  });
  expect_error(Code::invalid_argument, "left_penalty 1 works for the likeliest tokens only", [&] {
    add(*make_decoder(model, settings({{"left_penalty", 1}, {"temperature", 0.5}})), {{}, 1, 8});
  });
  expect_error(Code::invalid_argument, "eos is 31", [&] {
    make_decoder(model, settings({{"eos", 31}}));
  });
}

} // namespace
} // namespace dllm::decode

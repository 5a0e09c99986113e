// LLaDA2.2: tokens that are removed and put in between, and blocks that come back to an earlier
// state.

#include "unit/decode/requests.h"
#include "unit/decode/sessions.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

constexpr int32_t kDelete = 50, kSplit = 51;

struct Said {
  int32_t id;
  float probability;
};

// By position; the second likeliest token is 7.
Oracle says(std::vector<Said> by_position) {
  return [=](const Request&, int64_t position) {
    const Said& said = by_position[static_cast<size_t>(position)];
    Prediction p;
    p.position = position;
    p.token = p.argmax = said.id;
    p.probability = p.max_probability = said.probability;
    p.top_ids = {said.id, 7};
    p.top_probs = {said.probability, 0.1f};
    return p;
  };
}

Bench block_of_four(const Json& more = Json::object()) {
  Json own = {{"block_length", 4}, {"delete_token", kDelete}, {"split_token", kSplit}};
  own.update(more);
  return Bench("llada22", 4, own);
}

using Ids = std::vector<int32_t>;

TEST(Llada22, DeletesAndSplits) {
  Bench bench = block_of_four();
  bench.step(says({{1, 0.9f}, {2, 0.9f}, {3, 0.9f}, {4, 0.1f}}));
  EXPECT_EQ(bench.slot.ids, (Ids{1, 2, 3, kToyMask}));
  // 1 goes, what is behind it moves up, a mask comes in.
  bench.step(says({{kDelete, 0.9f}, {2, 0.9f}, {3, 0.9f}, {4, 0.9f}}));
  EXPECT_EQ(bench.slot.ids, (Ids{2, 3, 4, kToyMask}));
  // A mask before 3; the block keeps its length.
  bench.step(says({{2, 0.9f}, {kSplit, 0.9f}, {4, 0.9f}, {5, 0.9f}}));
  EXPECT_EQ(bench.slot.ids, (Ids{2, kToyMask, 3, 4}));
  EXPECT_EQ(bench.slot.states[1], State::masked);
  EXPECT_EQ(bench.slot.states[2], State::provisional);
  bench.step(says({{2, 0.9f}, {6, 0.9f}, {3, 0.9f}, {4, 0.9f}}));
  EXPECT_EQ(bench.slot.ids, (Ids{2, 6, 3, 4}));
  EXPECT_TRUE(bench.slot.active());
  bench.step(says({{2, 0.9f}, {6, 0.9f}, {3, 0.9f}, {4, 0.9f}})); // nothing changes
  EXPECT_FALSE(bench.slot.active());
  EXPECT_EQ(bench.slot.states[2], State::final);
}

TEST(Llada22, TheLastStepLeavesTheLayout) {
  Bench bench = block_of_four({{"max_post_steps", 1}});
  bench.step(says({{1, 0.9f}, {2, 0.9f}, {3, 0.9f}, {4, 0.9f}}));
  bench.step(says({{1, 0.9f}, {kDelete, 0.9f}, {kSplit, 0.9f}, {kToyMask, 0.9f}}));
  EXPECT_EQ(bench.slot.ids, (Ids{1, 7, 7, 7}));
  EXPECT_FALSE(bench.slot.active());
}

TEST(Llada22, ABlockThatComesBackTriesSomethingElse) {
  Bench bench = block_of_four();
  const Oracle first = says({{1, 0.9f}, {2, 0.9f}, {3, 0.9f}, {4, 0.9f}});
  bench.step(first);
  bench.step(says({{1, 0.9f}, {2, 0.9f}, {3, 0.9f}, {5, 0.8f}}));
  bench.step(first);
  EXPECT_EQ(bench.slot.ids, (Ids{1, 2, 3, 4}));
  // Seen before, and 5 was tried at 3: the next best token.
  bench.step(says({{1, 0.9f}, {2, 0.9f}, {3, 0.9f}, {5, 0.8f}}));
  EXPECT_EQ(bench.slot.ids, (Ids{1, 2, 3, 7}));
}

Json llada22_config() {
  Json config = tiny_config();
  config.update({{"model_type", "llada2_moe"},
                 {"head_dim", 6},
                 {"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 9},
                 {"num_shared_experts", 1},
                 {"n_group", 3}, // of no use with a capacity
                 {"block_size", 8},
                 {"expert_capacity", 3},
                 {"delete_token_id", 28},
                 {"split_token_id", 29}});
  return config;
}

TEST(Llada22, KeepsTheBitsOfNone) {
  const auto model = tiny_model(2, llada22_config());
  const auto run = [&](const char* cache, bool both) {
    auto decoder =
        make_decoder(model, {{"policy", "llada22"}, {"threshold", 0.3}, {"cache", cache}});
    add(*decoder, {{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, 11, 14});
    if (both) add(*decoder, {{2, 7}, 5, 10});
    decoder->run();
    return answer_of(*decoder);
  };
  const Answer wanted = run("none", false);
  EXPECT_EQ(run("exact", false), wanted);
  EXPECT_EQ(run("exact", true), wanted);
}

// A block that were cut by another grid would choose among other experts.
TEST(Llada22, CapacityNeedsItsGrid) {
  const auto model = tiny_model(1, llada22_config());
  for (const Json& settings : {Json{{"policy", "llada22"}, {"block_length", 12}},
                               Json{{"policy", "bd3lm"}, {"block_length", 8}}})
    test::expect_error(Code::invalid_argument, "blocks of 8 positions",
                       [&] { make_decoder(model, settings); });
  make_decoder(model, {{"policy", "llada22"}, {"block_length", 16}});
  make_decoder(model, {{"policy", "bd3lm"}, {"block_length", 8}, {"cache", "none"}});
}

TEST(Llada22, RefusesHoles) {
  const auto decoder = make_decoder(tiny_model(1, llada22_config()), {{"policy", "llada22"}});
  const std::vector<int32_t> canvas = {1, kMask, 3, kMask};
  const std::vector<uint8_t> fixed = {1, 0, 1, 0};
  test::expect_error(Code::invalid_argument, "position 2 is given and comes after open positions",
                     [&] { decoder->add(canvas, fixed, slot_options()); });
}

} // namespace
} // namespace dllm::decode

// Requests are shared out over the axes data and fsdp: each rank keeps the state of its own and
// computes them alone, and their tokens do not depend on it.

#include "unit/decode/requests.h"

#include <gtest/gtest.h>

#include <set>

namespace dllm::decode {
namespace {

std::shared_ptr<model::Model> model_on(const std::string& mesh, const Json& config) {
  Options options(graph::engine_schema());
  options.set_i64("threads", 1);
  options.set_str("mesh", mesh);
  return tiny_model(cpu::make_engine(options), config);
}

Json recurrent_config() {
  return {{"model_type", "qwen3_5_text"},
          {"vocab_size", kVocab},
          {"hidden_size", 24},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"intermediate_size", 40},
          {"max_position_embeddings", 128},
          {"initializer_range", 0.4},
          {"partial_rotary_factor", 0.5},
          {"linear_num_key_heads", 2},
          {"linear_num_value_heads", 4},
          {"linear_key_head_dim", 6},
          {"linear_value_head_dim", 5},
          {"mask_token_id", kMask},
          {"dllm", {{"attention", "block_causal"}, {"block_length", 8}}}};
}

const Json kCached = {
    {"policy", "spd"}, {"block_length", 4}, {"suppress_mask", true}, {"implementation", "kv_fast"}};

// Two at first, a third one in the middle, a fourth one with the beginning of the first in the row
// of one that left.
std::vector<Answer> come_and_go(const std::string& mesh, const Json& policy, const Json& config) {
  const auto decoder = make_decoder(model_on(mesh, config), policy);
  std::vector<Answer> answers;
  const int64_t first = add(*decoder, {{3, 1, 4, 1, 5, 9, 2, 6}, 11, 9}),
                second = add(*decoder, {{8, 8, 1, 29, 4}, 5, 14});
  decoder->step();
  const int64_t third = add(*decoder, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 40});
  decoder->run();
  for (const int64_t slot : {first, second, third}) answers.push_back(answer_of(*decoder, slot));
  decoder->remove(first);
  const int64_t fourth = add(*decoder, {{3, 1, 4, 1, 5, 9, 2, 6}, 12, 17});
  decoder->run();
  answers.push_back(answer_of(*decoder, fourth));
  return answers;
}

TEST(SharedRequests, ComeAndGo) {
  struct Case {
    Json policy, config;
  };
  Json on_device = kCached, drawn = kCached;
  on_device["loop"] = "device";
  const Case cases[] = {
      {kCached, tiny_config()},
      {on_device, tiny_config()},
      {{{"policy", "low_confidence"}, {"steps", 9}, {"guidance", 1.5}}, tiny_config()},
      {{{"policy", "low_confidence"}, {"steps", 9}, {"defer", Json::array({"3"})}}, tiny_config()},
      {{{"policy", "low_confidence"},
        {"steps", 24},
        {"block_length", 8},
        {"cache", "exact"},
        {"attention", "block_causal"}},
       recurrent_config()},
      {{{"policy", "diffusion_gemma"}}, canvas_config()}};
  for (const auto& [policy, config] : cases) {
    const std::vector<Answer> wanted = come_and_go("", policy, config);
    for (const char* mesh : {"data=2", "data=3", "fsdp=2", "data=2,fsdp=2"})
      EXPECT_EQ(come_and_go(mesh, policy, config), wanted) << mesh << " " << policy;
  }
}

// Four requests over two ranks: each rank computes two rows and keeps the state of two.
TEST(SharedRequests, ARankHasItsShareOfTheWork) {
  const auto decoder_on = [](const char* mesh) {
    auto decoder = make_decoder(model_on(mesh, tiny_config()), kCached);
    for (int32_t i = 0; i < 4; ++i) add(*decoder, {{3, 1, 4, i}, 11 + i, 12});
    decoder->run();
    return decoder;
  };
  const auto one = decoder_on(""), two = decoder_on("data=2"), four = decoder_on("data=4");
  EXPECT_EQ(two->metric(-1, "computed"), one->metric(-1, "computed"));
  EXPECT_EQ(four->metric(-1, "computed"), one->metric(-1, "computed"));
  EXPECT_EQ(two->metric(-1, "launches"), one->metric(-1, "launches"));
  EXPECT_EQ(two->metric(-1, "cache_bytes"), one->metric(-1, "cache_bytes"));
  EXPECT_EQ(four->metric(-1, "cache_bytes"), one->metric(-1, "cache_bytes"));
}

// Rows are taken where the fewest requests are, and a longer kept beginning comes first.
TEST(SharedRequests, RowsAreTakenWhereTheFewestRequestsAre) {
  DecodeState state(model_on("data=2", tiny_config()));
  const AttentionSpan span;
  std::vector<int64_t> rows;
  for (int i = 0; i < 4; ++i) rows.push_back(state.acquire(16, {}, span));
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 4u);
  EXPECT_EQ(state.rows(), 4);
  const auto on = [&](int64_t share) {
    return std::ranges::count_if(rows, [&](int64_t row) { return state.share_of(row) == share; });
  };
  EXPECT_EQ(on(0), 2);
  EXPECT_EQ(on(1), 2);
  EXPECT_EQ(state.shape().rows, 2); // of a rank
  for (const int64_t row : rows) {
    if (state.share_of(row) == 1) state.release(row);
  }
  EXPECT_EQ(state.share_of(state.acquire(16, {}, span)), 1);
  EXPECT_EQ(state.share_of(state.acquire(16, {}, span)), 1);
}

} // namespace
} // namespace dllm::decode

// SDAR and Fast-dLLM v2: what a step decides, and the same bits with and without a cache, on the
// host and in a loop.

#include "unit/decode/requests.h"
#include "unit/decode/sessions.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using Positions = std::vector<int64_t>;

TEST(Sdar, DynamicDecidesAllAboveTheThreshold) {
  Bench bench("sdar", 4, {{"block_length", 4}, {"threshold", 0.5}});
  EXPECT_EQ(bench.step(probabilities({0.9, 0.2, 0.6, 0.5})), (Positions{0, 2})); // 0.5 is not above
  EXPECT_EQ(bench.step(probabilities({0.9, 0.2, 0.6, 0.3})), (Positions{3}));
  EXPECT_EQ(bench.step(probabilities({0.9, 0.2, 0.6, 0.3})), (Positions{1}));
  EXPECT_FALSE(bench.slot.active());
}

TEST(Sdar, StaticDecidesItsShare) {
  Bench bench("sdar", 5, {{"block_length", 5}, {"steps_per_block", 2}, {"remasking", "static"}});
  EXPECT_EQ(bench.step(probabilities({0.9, 0.8, 0.99, 0.1, 0.95})), (Positions{0, 2, 4}));
  EXPECT_EQ(bench.step(probabilities({0.9, 0.8, 0.99, 0.1, 0.95})), (Positions{1, 3}));
}

TEST(Sdar, SequentialDecidesFromTheLeft) {
  Bench bench("sdar", 4,
              {{"block_length", 4}, {"steps_per_block", 2}, {"remasking", "sequential"}});
  EXPECT_EQ(bench.step(probabilities({0.1, 0.2, 0.9, 0.9})), (Positions{0, 1}));
  EXPECT_EQ(bench.step(probabilities({0.1, 0.2, 0.9, 0.9})), (Positions{2, 3}));
}

Json sdar_config(const char* type) {
  Json config = tiny_config();
  config.update({{"model_type", type},
                 {"head_dim", 6},
                 {"block_size", 4},
                 {"num_experts", 6},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 9}});
  return config;
}

TEST(Sdar, KeepsTheBitsOfNone) {
  for (const char* type : {"sdar", "sdar_moe"}) {
    const auto model = tiny_model(2, sdar_config(type));
    for (const char* remasking : {"dynamic", "static", "sequential"}) {
      const auto run = [&](const char* cache, const char* loop) {
        auto decoder = make_decoder(model, {{"policy", "sdar"},
                                            {"remasking", remasking},
                                            {"threshold", 0.2},
                                            {"cache", cache},
                                            {"loop", loop},
                                            {"trace", true}});
        add(*decoder, {{3, 1, 4, 1, 5, 9}, 11, 14});
        add(*decoder, {{2, 7}, 5, 10});
        decoder->run();
        return decoder->trace(0) + decoder->trace(1);
      };
      const std::string wanted = run("none", "host");
      EXPECT_EQ(run("exact", "host"), wanted) << type << " " << remasking;
      EXPECT_EQ(run("exact", "device"), wanted) << type << " " << remasking;
    }
  }
}

TEST(Sdar, BlocksAreThoseOfTheModel) {
  const auto decoder = make_decoder(tiny_model(1, sdar_config("sdar")), {{"policy", "sdar"}});
  add(*decoder, {{3, 1, 4, 1, 5}, 1, 7});
  decoder->step();
  EXPECT_EQ(decoder->request(0).block_begin(), 4);
  EXPECT_EQ(decoder->request(0).block_end(), 8);
}

// The first token of a block alone, then small blocks from the left: all above the threshold, the
// surest at least.
TEST(FastDllmV2, DecidesSmallBlocksFromTheLeft) {
  Bench bench("fast_dllm_v2", 12,
              {{"block_length", 6}, {"small_block_length", 3}, {"threshold", 0.5}});
  const auto p = probabilities({.1, .9, .4, .9, .2, .3, .9, .9, .9, .4, .6, .7});
  EXPECT_EQ(bench.step(p), (Positions{0}));
  EXPECT_EQ(bench.next_pass().positions, (Positions{1, 2}));
  EXPECT_EQ(bench.step(p), (Positions{1}));
  EXPECT_EQ(bench.step(p), (Positions{2}));
  EXPECT_EQ(bench.step(p), (Positions{3}));
  EXPECT_EQ(bench.step(p), (Positions{5}));
  EXPECT_EQ(bench.step(p), (Positions{4}));
  EXPECT_EQ(bench.step(p), (Positions{6}));
  EXPECT_EQ(bench.step(p), (Positions{7, 8}));
  EXPECT_EQ(bench.step(p), (Positions{10, 11}));
  EXPECT_EQ(bench.step(p), (Positions{9}));
  EXPECT_FALSE(bench.slot.active());
}

TEST(FastDllmV2, KeepsTheBitsOfNone) {
  Json config = tiny_config();
  config.update({{"model_type", "Fast_dLLM_Qwen"}, {"bd_size", 6}});
  const auto model = tiny_model(2, config);
  const auto run = [&](const char* cache, const char* loop) {
    auto decoder = make_decoder(model, {{"policy", "fast_dllm_v2"},
                                        {"small_block_length", 2},
                                        {"threshold", 0.2},
                                        {"cache", cache},
                                        {"loop", loop},
                                        {"trace", true}});
    add(*decoder, {{3, 1, 4, 1, 5, 9, 2}, 11, 17});
    add(*decoder, {{2, 7}, 5, 10});
    decoder->run();
    EXPECT_EQ(decoder->request(0).block_length, 6); // that of the model
    return decoder->trace(0) + decoder->trace(1);
  };
  const std::string wanted = run("none", "host");
  EXPECT_EQ(run("exact", "host"), wanted);
  EXPECT_EQ(run("exact", "device"), wanted);
}

// The first token of a block is what a causal step behind the decided block would be: the state
// before it predicts it.
TEST(FastDllmV2, ABlockBeginsWithTheNextToken) {
  Json config = tiny_config();
  config.update({{"model_type", "Fast_dLLM_Qwen"}, {"bd_size", 4}});
  const auto model = tiny_model(1, config);
  auto decoder = make_decoder(model, {{"policy", "fast_dllm_v2"}, {"temperature", 0.0}});
  const std::vector<int32_t> prompt{3, 1, 4, 1};
  add(*decoder, {prompt, 1, 4});
  decoder->step();
  Batch rows;
  rows.set("ids", Tensor::from(Shape{1, 4}, prompt));
  Options options(model::forward_schema());
  options.set_json(Json{{"shift", 0}}); // row i is what stands behind position i
  const Tensor logits = model::forward(*model, rows, options).at("logits");
  const auto last = logits.as<float>().last(static_cast<size_t>(logits.shape()[2]));
  const auto mask = static_cast<size_t>(model->config().mask_token_id);
  size_t best = mask == 0 ? 1 : 0;
  for (size_t token = 0; token < last.size(); ++token) {
    if (token != mask && last[token] > last[best]) best = token;
  }
  EXPECT_EQ(decoder->request(0).ids[4], static_cast<int32_t>(best));
}

} // namespace
} // namespace dllm::decode

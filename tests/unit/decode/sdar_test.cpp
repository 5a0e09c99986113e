// SDAR: what a step decides, and the same bits with and without a cache, on the host and in a loop.

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

} // namespace
} // namespace dllm::decode

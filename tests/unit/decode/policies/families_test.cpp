// Decoding models whose layers differ: cached and uncached, alone and together, the same bits.

#include "unit/decode/requests.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::decode {
namespace {

struct Kind {
  const char* model_type;
  const char* attention;
};

Json config_of(const std::string& type) {
  Json config = tiny_config();
  config["model_type"] = type;
  config["head_dim"] = 6;
  if (type == "gemma3_text") { // layers that slide, and one that does not
    config["num_hidden_layers"] = 3;
    config["sliding_window"] = 3;
    config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  } else { // dense layers first: two runs
    config.update({{"num_experts", 6},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", 9},
                   {"n_group", 3},
                   {"topk_group", 2},
                   {"first_k_dense_replace", 1},
                   {"num_shared_experts", 1},
                   {"mlp_only_layers", {0}}});
  }
  return config;
}

class FamilyCache : public ::testing::TestWithParam<Kind> {};

TEST_P(FamilyCache, GivesTheBitsOfNone) {
  const auto model = tiny_model(2, config_of(GetParam().model_type));
  const auto decoder = [&](const char* cache, const char* loop = "host") {
    return make_decoder(model, {{"policy", "low_confidence"},
                                {"steps", 12},
                                {"block_length", 4},
                                {"attention", GetParam().attention},
                                {"cache", cache},
                                {"loop", loop},
                                {"temperature", 0.9},
                                {"trace", true}});
  };
  const std::vector<TestRequest> requests = {{{3, 1, 4}, 11, 9}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 13}};
  const auto cached = decoder("exact"), plain = decoder("none"), alone = decoder("exact");
  for (const TestRequest& request : requests) add(*cached, request), add(*plain, request);
  add(*alone, requests[1]);
  const auto looped = decoder("exact", "device");
  for (const TestRequest& request : requests) add(*looped, request);
  cached->run(), plain->run(), alone->run(), looped->run();
  for (int64_t slot = 0; slot < 2; ++slot) {
    EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot)) << "slot " << slot;
    EXPECT_EQ(looped->trace(slot), cached->trace(slot)) << "slot " << slot;
  }
  EXPECT_EQ(answer_of(*alone), answer_of(*plain, 1));
}

INSTANTIATE_TEST_SUITE_P(Decode, FamilyCache,
                         ::testing::Values(Kind{"gemma3_text", "causal"},
                                           Kind{"gemma3_text", "block_causal"},
                                           Kind{"llada2_moe", "block_causal"},
                                           Kind{"qwen3_moe", "causal"}),
                         [](const auto& info) {
                           return std::string(info.param.model_type) + "_" + info.param.attention;
                         });

// The decoder says causal by limits, a forward call by its name: the windows are the same.
TEST(FamilyWindows, ReachTheDecoder) {
  const auto model = tiny_model(1, config_of("gemma3_text"));
  const auto decoder = make_decoder(model, {{"policy", "low_confidence"},
                                            {"steps", 1},
                                            {"block_length", 1},
                                            {"shift", 0},
                                            {"attention", "causal"},
                                            {"cache", "none"},
                                            {"temperature", 0}});
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  add(*decoder, {prompt, 1, 1});
  decoder->run();

  std::vector<int32_t> ids = prompt;
  ids.push_back(kMask);
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, 10}, ids));
  const Tensor logits = model::forward(*model, batch).at("logits");
  const auto row = logits.as<float>().subspan(9 * kVocab, kVocab);
  double sum = 0, top = -1e30;
  for (int32_t id = 0; id < kVocab; ++id) {
    sum += std::exp(static_cast<double>(row[static_cast<size_t>(id)]));
    if (id != kMask) top = std::max(top, static_cast<double>(row[static_cast<size_t>(id)]));
  }
  sum -= std::exp(static_cast<double>(row[kMask])); // the mask is never drawn
  const Answer answer = answer_of(*decoder);
  EXPECT_EQ(row[static_cast<size_t>(answer.ids.back())], static_cast<float>(top));
  EXPECT_NEAR(answer.confidence.back(), std::exp(top) / sum, 1e-5);
}

} // namespace
} // namespace dllm::decode

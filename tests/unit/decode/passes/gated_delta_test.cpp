// Decoding a model with gated delta layers from snapshots gives the tokens of computing everything
// anew. The chunks of the two begin at other positions, so probabilities agree to rounding, which
// these large random weights multiply.

#include "unit/decode/requests.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

Json delta_config() {
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

const std::vector<TestRequest> kDeltaRequests = {
    {{3, 1, 4}, 11, 9}, {{}, 5, 24}, {{9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3}, 7, 47}};

class GatedDeltaDecoding : public ::testing::TestWithParam<const char*> {
protected:
  std::unique_ptr<Decoder> decoder(const char* cache) const {
    Json values = {{"policy", GetParam()}, {"cache", cache}, {"temperature", 0.9}};
    const bool one_by_one = std::string(GetParam()) == "autoregressive";
    values["attention"] = one_by_one ? "causal" : "block_causal";
    if (!one_by_one) values.update({{"steps", 24}, {"block_length", 8}});
    return make_decoder(model_, values);
  }
  std::shared_ptr<model::Model> model_ = tiny_model(2, delta_config());
};

TEST_P(GatedDeltaDecoding, SnapshotsGiveTheTokensOfNoCache) {
  const auto cached = decoder("exact"), plain = decoder("none");
  for (const TestRequest& request : kDeltaRequests) add(*cached, request), add(*plain, request);
  cached->run(), plain->run();
  for (int64_t slot = 0; slot < 3; ++slot) {
    const Answer one = answer_of(*cached, slot), other = answer_of(*plain, slot);
    EXPECT_EQ(one.ids, other.ids) << "slot " << slot;
    ASSERT_EQ(one.confidence.size(), other.confidence.size());
    for (size_t i = 0; i < one.confidence.size(); ++i)
      EXPECT_NEAR(one.confidence[i], other.confidence[i], 1e-3) << slot << " " << i;
  }
  EXPECT_GT(cached->metric(-1, "cache_bytes"), 0);
}

// Rows of one pass are as long as the longest: neighbours must not change a bit.
TEST_P(GatedDeltaDecoding, NeighboursChangeNoBit) {
  const auto together = decoder("exact");
  for (const TestRequest& request : kDeltaRequests) add(*together, request);
  together->run();
  for (size_t i = 0; i < kDeltaRequests.size(); ++i) {
    const auto alone = decoder("exact");
    add(*alone, kDeltaRequests[i]);
    alone->run();
    EXPECT_EQ(answer_of(*alone), answer_of(*together, static_cast<int64_t>(i))) << "request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Decode, GatedDeltaDecoding,
                         ::testing::Values("low_confidence", "bd3lm", "llada2", "autoregressive"),
                         [](const auto& info) { return std::string(info.param); });

} // namespace
} // namespace dllm::decode

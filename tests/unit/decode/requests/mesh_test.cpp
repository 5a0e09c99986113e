// Decoding on several ranks of this process gives the tokens of one rank, with caches cut by heads.

#include "base/error.h"
#include "unit/decode/requests.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

std::shared_ptr<graph::Engine> engine_of(const std::string& mesh) {
  Options options(graph::engine_schema());
  options.set_i64("threads", 1);
  options.set_str("mesh", mesh);
  return cpu::make_engine(options);
}

// A vocabulary and sizes that 2 and 4 divide.
Json config_of(const Json& more = Json::object()) {
  Json config = tiny_config();
  config["vocab_size"] = 32;
  config["hidden_size"] = 32;
  config["num_key_value_heads"] = 4;
  config.update(more);
  return config;
}

// Axis tensor adds the parts of a product in another order than one rank does. Without a prompt all
// positions of the tiny model are nearly alike, and the last bit would decide between them.
const std::vector<TestRequest> kAsked = {
    {{3, 1, 4}, 11, 9}, {{8, 8, 1, 29, 4}, 5, 14}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 13}};

std::vector<std::vector<int32_t>> decoded(const std::string& mesh, const Json& policy,
                                          const Json& config, const char* cache = "f32",
                                          const char* format = "f32") {
  Options options(model::model_schema());
  options.set_str("cache_dtype", cache);
  options.set_str("dtype", format);
  const auto decoder = make_decoder(model::new_model(engine_of(mesh), config, options), policy);
  for (const TestRequest& request : kAsked) add(*decoder, request);
  decoder->run();
  std::vector<std::vector<int32_t>> ids;
  for (int64_t slot = 0; slot < static_cast<int64_t>(kAsked.size()); ++slot)
    ids.push_back(decoder->request(slot).ids);
  return ids;
}

TEST(MeshDecoding, TokensAreThoseOfOneRank) {
  const Json policies[] = {
      {{"policy", "spd"}, {"block_length", 4}, {"suppress_mask", true}, {"implementation", "fast"}},
      {{"policy", "spd"},
       {"block_length", 4},
       {"suppress_mask", true},
       {"implementation", "kv_fast"}},
      {{"policy", "dream"}, {"temperature", 0.7}, {"top_p", 0.9}}};
  for (const Json& policy : policies) {
    const auto wanted = decoded("", policy, config_of());
    for (const char* mesh : {"tensor=2", "tensor=4", "fsdp=2", "fsdp=2,tensor=2", "data=2",
                             "data=4", "data=2,fsdp=2", "data=2,tensor=2"})
      EXPECT_EQ(decoded(mesh, policy, config_of()), wanted) << mesh << " " << policy;
  }
}

TEST(MeshDecoding, RoundedCachesAreCutToo) {
  const Json policy = {{"policy", "spd"},
                       {"block_length", 4},
                       {"suppress_mask", true},
                       {"implementation", "kv_fast"}};
  for (const char* cache : {"bf16", "int8"}) {
    EXPECT_EQ(decoded("tensor=2", policy, config_of(), cache),
              decoded("", policy, config_of(), cache))
        << cache;
  }
}

// Weights in 8 bits and in blocks are cut too; their logits hang on where rows are cut no more than
// f32.
TEST(MeshDecoding, WeightsInOtherFormats) {
  const Json policy = {{"policy", "spd"},
                       {"block_length", 4},
                       {"suppress_mask", true},
                       {"implementation", "kv_fast"}};
  const Json config = config_of({{"hidden_size", 64}, {"intermediate_size", 128}});
  for (const char* format : {"bf16", "int8", "q8_0"}) {
    const auto wanted = decoded("", policy, config, "f32", format);
    EXPECT_EQ(decoded("tensor=2", policy, config, "f32", format), wanted) << format;
    EXPECT_EQ(decoded("fsdp=2", policy, config, "f32", format), wanted) << format;
  }
}

// All ranks have the same rows, and each computes its experts for them.
TEST(MeshDecoding, ExpertsOnTheirRanks) {
  const Json policy = {{"policy", "spd"},
                       {"block_length", 4},
                       {"suppress_mask", true},
                       {"implementation", "kv_fast"}};
  const Json config = config_of({{"model_type", "qwen3_moe"},
                                 {"head_dim", 8},
                                 {"num_experts", 8},
                                 {"num_experts_per_tok", 2},
                                 {"norm_topk_prob", true},
                                 {"decoder_sparse_step", 1},
                                 {"moe_intermediate_size", 12}});
  for (const char* format : {"f32", "int8"}) {
    const auto wanted = decoded("", policy, config, "f32", format);
    for (const char* mesh : {"expert=2", "expert=4", "tensor=2,expert=2", "expert=3"})
      EXPECT_EQ(decoded(mesh, policy, config, "f32", format), wanted) << mesh << " " << format;
  }
}

// Heads that do not divide: attention and its cache are whole on every rank.
TEST(MeshDecoding, HeadsThatDoNotDivide) {
  const Json policy = {{"policy", "spd"},
                       {"block_length", 4},
                       {"suppress_mask", true},
                       {"implementation", "kv_fast"}};
  const Json config = config_of({{"num_key_value_heads", 1}});
  EXPECT_EQ(decoded("tensor=2", policy, config), decoded("", policy, config));
}

} // namespace
} // namespace dllm::decode

// LLaDA-MoE outside the published configuration, against its formulas in plain loops of doubles:
// dense layers, shared experts, fewer heads of K and V, and a router that never divides by the sum.

#include "unit/model/families/plain_moe.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;

void expect_original(const char* what, const Json& changes) {
  Json config = small_config("lladamoe");
  config["initializer_range"] = 0.6;
  config["shared_expert_intermediate_size"] = nullptr;
  config["num_key_value_heads"] = 4;
  config.update(changes);
  expect_plain(what, *new_model(small_engine(), config, model_options({{"seed", "3"}})));
}

TEST(LladaMoe, EveryConfigurationIsTheOriginal) {
  const Json dense = {{"moe_layer_freq", {0, 1, 1}}, {"dense_intermediate_size", 20}};
  const Json shared = {{"shared_expert_intermediate_size", 7}};
  expect_original("as published", Json::object());
  expect_original("a dense first layer", dense);
  expect_original("dense in between",
                  {{"moe_layer_freq", {1, 0, 1}}, {"dense_intermediate_size", 12}});
  expect_original("shared experts", shared);
  expect_original("fewer heads of K and V", {{"num_key_value_heads", 2}});
  expect_original("one head of K and V", {{"num_key_value_heads", 1}});
  expect_original("norm_topk_prob", {{"norm_topk_prob", true}});
  Json all = dense;
  all.update(shared);
  all.update({{"num_key_value_heads", 1}, {"norm_topk_prob", true}, {"num_experts_per_tok", 3}});
  expect_original("all of them", all);
}

// The original ignores norm_topk_prob; the key stays in the file.
TEST(LladaMoe, DefaultsAndKeysAreTheOriginals) {
  Json words = small_config("lladamoe");
  words["norm_topk_prob"] = true;
  words.erase("max_position_embeddings");
  const ModelConfig config = config_from_json(words, "config.json");
  EXPECT_FALSE(config.experts.normalize);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_EQ(config.max_positions, 4096);
  EXPECT_EQ(config_to_json(config)["norm_topk_prob"], true);
}

TEST(LladaMoe, WhatTheOriginalDoesNotHaveIsRefused) {
  const auto refused = [](const char* key, const Json& value) {
    Json config = small_config("lladamoe");
    config[key] = value;
    const Error error = test::error_of([&] { config_from_json(config, "config.json"); });
    EXPECT_NE(error.text().find(key), std::string::npos) << error.text();
  };
  refused("head_dim", 6);
  refused("moe_router_enable_expert_bias", true);
  refused("moe_router_score_function", "sigmoid");
  refused("clip_qkv", 8.0);
  refused("router_num_group", 2);
  refused("routed_scaling_factor", 2.5);
}

} // namespace
} // namespace dllm::model

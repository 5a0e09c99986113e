// Decoding on several devices of a plugin: the tokens of one device, with caches cut by heads, and
// one trip a block.

#include "unit/decode/requests.h"
#include "unit/pjrt/meshes/mesh_plugins.h"

#include <gtest/gtest.h>

namespace dllm::pjrt {
namespace {

// A vocabulary and sizes that 2 and 4 divide.
Json cut_model(const Json& more = Json::object()) {
  Json config = decode::tiny_config();
  config.update({{"vocab_size", 32}, {"hidden_size", 32}, {"num_key_value_heads", 4}});
  config.update(more);
  return config;
}

// Of equal length: a compiler takes its time for every shape. With a prompt: without one the
// positions of a tiny model are nearly alike, and the last bit, which axis tensor may change, would
// decide between them.
const std::vector<decode::TestRequest> kAsked = {{{9, 2, 6, 5, 3, 5, 8, 9}, 7, 12},
                                                 {{3, 1, 4, 1, 5, 9, 2, 6}, 11, 12}};

struct Decoded {
  std::vector<std::vector<int32_t>> ids;
  int64_t blocks = 0, trips = 0;
};

Decoded decoded(const std::shared_ptr<graph::Engine>& engine, const Json& values,
                const Json& config = cut_model(), const char* cache = "f32") {
  Options options(model::model_schema());
  options.set_str("cache_dtype", cache);
  const auto decoder = decode::make_decoder(model::new_model(engine, config, options), values);
  for (const decode::TestRequest& request : kAsked) add(*decoder, request);
  Decoded made;
  const int64_t before = engine->i64("round_trips");
  decoder->run([&](const Event& event) {
    made.blocks += event.kind() == EventKind::block;
    return dllm::Answer::go_on;
  });
  made.trips = engine->i64("round_trips") - before;
  for (int64_t slot = 0; slot < std::ssize(kAsked); ++slot)
    made.ids.push_back(decoder->request(slot).ids);
  EXPECT_EQ(decoder->describe().at("loop").at("runs_on"),
            values.value("loop", "device")); // option loop is auto
  return made;
}

Json policy_of(const char* name, const Json& more = Json::object()) {
  Json values = {{"policy", name}, {"block_length", 4}, {"suppress_mask", true}};
  values.update(more);
  return values;
}

class PjrtMeshDecoding : public OnPlugins {
protected:
  static std::shared_ptr<graph::Engine> engine(const std::string& mesh) {
    return mesh_engine(path(), mesh);
  }
};

TEST_P(PjrtMeshDecoding, TokensAreThoseOfOneRankAndABlockIsOneTrip) {
  struct Case {
    const char* mesh;
    Json values;
  };
  // A compiler takes seconds for each.
  const Case cases[] = {
      {"fsdp=2,tensor=2", policy_of("spd", {{"threshold", 0.3}, {"implementation", "kv_fast"}})},
      {"tensor=4",
       policy_of("bd3lm", {{"steps", 12}, {"remasking", "random"}, {"temperature", 0.7}})},
      {"data=2,tensor=2", policy_of("spd", {{"threshold", 0.3}, {"implementation", "kv_fast"}})},
      {"tensor=2", policy_of("threshold", {{"threshold", 0.3}, {"loop", "host"}})},
      {"data=2", policy_of("threshold", {{"threshold", 0.3}, {"loop", "host"}})}};
  for (const auto& [mesh, values] : cases) {
    const Decoded wanted = decoded(engine(""), values), got = decoded(engine(mesh), values);
    EXPECT_EQ(got.ids, wanted.ids) << mesh << " " << values;
    // Fewer where the ranks together begin with more rows of caches, which then do not grow.
    EXPECT_LE(got.trips, wanted.trips) << mesh << " " << values;
    if (values.value("loop", "device") == "device") {
      EXPECT_LE(got.trips, got.blocks) << mesh << " " << values;
    }
  }
}

TEST_P(PjrtMeshDecoding, RoundedCachesAndExpertsAreCutToo) {
  const Json spd = policy_of("spd", {{"threshold", 0.3}, {"implementation", "kv_fast"}});
  EXPECT_EQ(decoded(engine("tensor=2"), spd, cut_model(), "int8").ids,
            decoded(engine(""), spd, cut_model(), "int8").ids);
  const Json experts = cut_model({{"model_type", "qwen3_moe"},
                                  {"head_dim", 8},
                                  {"num_experts", 4},
                                  {"num_experts_per_tok", 2},
                                  {"norm_topk_prob", true},
                                  {"decoder_sparse_step", 1},
                                  {"moe_intermediate_size", 12}});
  EXPECT_EQ(decoded(engine("tensor=2,expert=2"), spd, experts).ids,
            decoded(engine(""), spd, experts).ids);
}

DLLM_ON_PLUGINS(PjrtMeshDecoding);

} // namespace
} // namespace dllm::pjrt

// Nemotron-Labs-Diffusion: blocks with a first token of their own, and a model that drafts for
// itself.

#include "model/adapters/adapter.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

// Positions beyond 8 turn other queries.
Json nemotron_config() {
  Json config = tiny_config();
  config.update({{"model_type", "nemotron_labs_diffusion"},
                 {"block_size", 4},
                 {"rope_parameters",
                  {{"rope_type", "yarn"},
                   {"rope_theta", 1e6},
                   {"factor", 4.0},
                   {"original_max_position_embeddings", 8},
                   {"llama_4_scaling_beta", 0.1}}}});
  return config;
}

std::string trace_of(const std::shared_ptr<model::Model>& model, Json settings) {
  settings["trace"] = true;
  const auto decoder = make_decoder(model, settings);
  add(*decoder, {{3, 1, 4, 1, 5, 9}, 11, 14});
  add(*decoder, {{2, 7}, 5, 10});
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "open"), 0);
  return decoder->trace(0) + decoder->trace(1);
}

TEST(Nemotron, KeepsTheBitsOfNone) {
  const auto model = tiny_model(2, nemotron_config());
  Json settings = {{"policy", "nemotron"}, {"threshold", 0.2}, {"cache", "none"}};
  const std::string wanted = trace_of(model, settings);
  settings["cache"] = "exact";
  EXPECT_EQ(trace_of(model, settings), wanted);
}

TEST(Nemotron, TheFirstTokenOfABlockIsTheNextToken) {
  const auto model = tiny_model(1, nemotron_config());
  const auto blocks = make_decoder(model, {{"policy", "nemotron"}, {"threshold", 1.0}});
  const auto next = make_decoder(model, {{"policy", "autoregressive"}});
  for (Decoder* decoder : {blocks.get(), next.get()}) {
    add(*decoder, {{3, 1, 4}, 2, 8});
    decoder->step();
  }
  EXPECT_EQ(blocks->request(0).ids[3], next->request(0).ids[3]);
  EXPECT_EQ(blocks->metric(0, "open"), 7);
  blocks->run();
  EXPECT_EQ(blocks->metric(0, "nfe"), 8); // threshold 1: a token a step
}

TEST(SelfSpeculation, GivesTheNextTokens) {
  const auto model = tiny_model(2, nemotron_config());
  for (const double threshold : {0.0, 0.3}) {
    for (const char* cache : {"exact", "none"}) {
      const auto drafts = make_decoder(
          model, {{"policy", "self_speculation"}, {"threshold", threshold}, {"cache", cache}});
      const auto next = make_decoder(model, {{"policy", "autoregressive"}, {"cache", cache}});
      for (Decoder* decoder : {drafts.get(), next.get()}) {
        add(*decoder, {{3, 1, 4, 1, 5, 9}, 11, 14});
        add(*decoder, {{}, 5, 7});
        decoder->run();
      }
      for (int64_t slot = 0; slot < 2; ++slot)
        EXPECT_EQ(drafts->request(slot).ids, next->request(slot).ids) << threshold << cache;
    }
  }
}

TEST(SelfSpeculation, DraftsAreProvisional) {
  const auto decoder =
      make_decoder(tiny_model(1, nemotron_config()), {{"policy", "self_speculation"}});
  add(*decoder, {{3, 1, 4}, 2, 8});
  decoder->step(); // the first token
  decoder->step(); // three more of a block of four
  int64_t drafted = 0;
  for (const State state : decoder->request(0).states) drafted += state == State::provisional;
  EXPECT_EQ(drafted, 3);
  decoder->step();
  for (const State state : decoder->request(0).states) EXPECT_NE(state, State::provisional);
}

// With an adapter that drafts use alone the text is that of the model without it.
TEST(SelfSpeculation, AnAdapterOfDraftsLeavesTheText) {
  const auto plain = tiny_model(2, nemotron_config()), adapted = tiny_model(2, nemotron_config());
  model::add_adapter(*adapted, {{"*o_proj.weight"}, {3, 12}, 1});
  for (int layer = 0; layer < 2; ++layer) {
    std::vector<float> up(24 * 3);
    for (size_t i = 0; i < up.size(); ++i) up[i] = 0.3f * static_cast<float>(i % 7) - 0.9f;
    const std::string name =
        "encoder.layers." + std::to_string(layer) + ".self_attn.o_proj.lora_B.weight";
    adapted->params().write(name, Tensor::from(Shape{24, 3}, up));
  }
  const auto decode = [](const std::shared_ptr<model::Model>& model, const Json& settings) {
    const auto decoder = make_decoder(model, settings);
    add(*decoder, {{3, 1, 4, 1, 5, 9}, 11, 14});
    add(*decoder, {{}, 5, 7});
    decoder->run();
    return std::pair(decoder->request(0).ids, decoder->request(1).ids);
  };
  const auto wanted = decode(plain, {{"policy", "autoregressive"}});
  for (const double threshold : {0.0, 0.3}) {
    const Json settings = {
        {"policy", "self_speculation"}, {"threshold", threshold}, {"adapter", "drafts"}};
    EXPECT_EQ(decode(adapted, settings), wanted) << threshold;
  }
  EXPECT_NE(decode(adapted, {{"policy", "self_speculation"}}), wanted); // in all passes
  test::expect_error(Code::invalid_argument, "needs the cache", [&] {
    make_decoder(adapted,
                 {{"policy", "self_speculation"}, {"adapter", "drafts"}, {"cache", "none"}});
  });
}

TEST(Nemotron, RefusesAnotherAttention) {
  for (const char* policy : {"nemotron", "self_speculation"})
    test::expect_error(Code::invalid_argument, "sets attention itself, not causal", [&] {
      make_decoder(tiny_model(), {{"policy", policy}, {"attention", "causal"}});
    });
}

} // namespace
} // namespace dllm::decode

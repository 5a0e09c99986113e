// DiffusionGemma: a causal prefix with a canvas of noise behind it.

#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::decode {
namespace {

using test::expect_error;

std::string canvas_trace(const std::shared_ptr<model::Model>& model, const char* cache) {
  const auto decoder = make_decoder(model, {{"policy", "diffusion_gemma"},
                                            {"denoising_steps", 5},
                                            {"entropy_bound", 2.0},
                                            {"trace", true},
                                            {"cache", cache}});
  add(*decoder, {{3, 1, 4, 1, 5, 9}, 11, 10});
  add(*decoder, {{2, 7}, 5, 8});
  add(*decoder, {{}, 6, 4});
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "open"), 0);
  return decoder->trace(0) + decoder->trace(1) + decoder->trace(2);
}

TEST(DiffusionGemma, KeepsTheBitsOfNone) {
  for (const int64_t threads : {1, 2}) {
    const auto model = tiny_model(threads, canvas_config());
    EXPECT_EQ(canvas_trace(model, "exact"), canvas_trace(model, "none"));
  }
}

TEST(DiffusionGemma, EndsACanvasThatIsSure) {
  const auto model = tiny_model(1, canvas_config());
  const auto steps = [&](const Json& more) {
    Json settings = {{"policy", "diffusion_gemma"}, {"denoising_steps", 6}};
    settings.update(more);
    const auto decoder = make_decoder(model, settings);
    add(*decoder, {{3, 1, 4}, 2, 8});
    decoder->run();
    return decoder->metric(0, "nfe");
  };
  EXPECT_EQ(steps({{"confidence", 0.0}}), 12); // two canvases
  EXPECT_EQ(steps({{"confidence", 1e3}, {"stability", 0}}), 2);
  EXPECT_EQ(steps({{"confidence", 1e3}, {"stability", 1}, {"denoising_steps", 1}}), 2);
}

TEST(DiffusionGemma, StepsAreConditionedOnTheOnesBefore) {
  const auto model = tiny_model(1, canvas_config());
  const auto decoder = make_decoder(model, {{"policy", "diffusion_gemma"},
                                            {"entropy_bound", 1e6},
                                            {"temperature", 0.0},
                                            {"stability", 100}});
  add(*decoder, {{3, 1, 4}, 2, 4});
  decoder->predict();
  const std::vector<float> first = decoder->copy(0)->predictions->at(0).mean_embedding;
  ASSERT_EQ(first.size(), 24u);
  EXPECT_TRUE(std::ranges::any_of(first, [](float x) { return x != 0; }));
  // Every candidate is kept: from here on canvas and draft are the same, and only the conditioning
  // can differ.
  for (int step = 0; step < 3; ++step) decoder->step();
  decoder->predict();
  EXPECT_NE(decoder->copy(0)->predictions->at(0).mean_embedding, first);
}

TEST(DiffusionGemma, RefusesWhatItCannotDo) {
  const auto gemma = tiny_model(1, canvas_config());
  expect_error(Code::invalid_argument, "t_min is 0.9", [&] {
    make_decoder(gemma, {{"policy", "diffusion_gemma"}, {"t_min", 0.9}});
  });
  expect_error(Code::invalid_argument, "no guidance", [&] {
    make_decoder(gemma, {{"policy", "diffusion_gemma"}, {"guidance", 1.0}});
  });
  expect_error(Code::invalid_argument, "not llama", [&] {
    make_decoder(tiny_model(), {{"policy", "diffusion_gemma"}});
  });
  Json odd = canvas_config();
  odd["text_config"]["num_global_key_value_heads"] = 3;
  expect_error(Code::invalid_argument, "divisor of the 4 attention heads",
               [&] { tiny_model(1, odd); });
}

TEST(DiffusionGemma, PrintsWhatItReads) {
  const auto model = tiny_model(1, canvas_config());
  const Json printed = model::config_to_json(model->config());
  const model::ModelConfig again = model::config_from_json(printed, "config.json");
  EXPECT_EQ(again.global_attention.head_dim, 16);
  EXPECT_EQ(again.global_attention.kv_heads, 1);
  EXPECT_EQ(again.mixers, model->config().mixers);
  EXPECT_EQ(again.rope.partial, 0.25);
  EXPECT_EQ(again.sliding_theta, 1e4);
  EXPECT_EQ(again.block_length, 4);
  EXPECT_EQ(again.logit_softcap, 30.0);
  EXPECT_EQ(model::config_to_json(again), printed);
}

} // namespace
} // namespace dllm::decode

// Decoding of latent models: text from latents by steps and by one launch, prompts, and what does
// not fit.

#include "base/error.h"
#include "noise/objective.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::decode {
namespace {

// A model with the parts of objective ldlm, whose weights are far from their first values.
std::shared_ptr<model::Model> latent_decoding_model(const Json& more = Json::object(),
                                                    int64_t threads = 1) {
  const auto model = tiny_model(threads);
  Options options(noise::objective_schema("ldlm"));
  options.set_json({{"latents", 5},
                    {"positions", 16},
                    {"latent_dim", 6},
                    {"latent_heads", 4},
                    {"depth", 1},
                    {"reader_depth", 1},
                    {"denoiser_depth", 1}});
  options.set_json(more);
  const auto objective = noise::make_objective("ldlm", nullptr, options);
  for (const auto& [name, config] : objective->new_parts(model->config()))
    model::add_new_network(*model, name, config, 5);
  uint64_t number = 0;
  for (const std::string& name : model->params().names()) {
    if (name.find('/') == std::string::npos) continue;
    Tensor values = model->params().read(name).to(DType::f32).clone();
    for (float& value : values.mutable_as<float>())
      value += 0.3f * std::sin(static_cast<float>(number += 3));
    model->params().write(name, values);
  }
  return model;
}

Json latent_settings(const Json& more = Json::object()) {
  Json settings = {{"policy", "latent"}, {"steps", 5}, {"gen_length", 9}};
  settings.update(more);
  return settings;
}

Answer latent_answer(const std::shared_ptr<model::Model>& model, const Json& more = Json::object(),
                     const std::vector<int32_t>& prompt = {3, 1, 4}, int64_t seed = 7) {
  const auto decoder = make_decoder(model, latent_settings(more));
  decoder->add(prompt, {}, slot_options({{"seed", seed}}));
  decoder->run();
  return answer_of(*decoder);
}

// Returns how sure the reader is of the tokens after the prompt.
std::vector<float> without_prompt(const Answer& answer) {
  return {answer.confidence.begin() + 3, answer.confidence.end()};
}

TEST(LatentPolicy, OneLaunchGivesTheTextOfSteps) {
  for (const Json& sizes : {Json::object(), Json{{"prompt", 1.0}}}) {
    const auto model = latent_decoding_model(sizes);
    const Answer wanted = latent_answer(model, {{"loop", "host"}});
    EXPECT_EQ(latent_answer(model, {{"loop", "device"}}), wanted);
    EXPECT_EQ(latent_answer(latent_decoding_model(sizes, 2), {{"loop", "device"}}), wanted);
    EXPECT_NE(latent_answer(model, Json::object(), {3, 1, 4}, 8).confidence, wanted.confidence);
    EXPECT_TRUE(std::ranges::equal(std::vector<int32_t>{3, 1, 4}, std::span(wanted.ids).first(3)));
    const auto decoder = make_decoder(model, latent_settings({{"loop", "device"}}));
    decoder->add(std::vector<int32_t>{3, 1, 4}, {}, slot_options({{"seed", 7}}));
    decoder->add(std::vector<int32_t>{5}, {}, slot_options({{"seed", 8}}));
    EXPECT_EQ(decoder->request(0).array.size(), 5u * 6); // latents, whatever the length
    decoder->run();
    EXPECT_EQ(answer_of(*decoder, 0), wanted);
    EXPECT_EQ(answer_of(*decoder, 1), latent_answer(model, Json::object(), {5}, 8));
    EXPECT_EQ(decoder->request(0).launches, 1);
  }
}

TEST(LatentPolicy, APromptIsReadByAModelThatLearnedIt) {
  const auto plain = latent_decoding_model(), prompted = latent_decoding_model({{"prompt", 1.0}});
  const std::vector<int32_t> other = {9, 2, 6};
  EXPECT_EQ(without_prompt(latent_answer(plain)),
            without_prompt(latent_answer(plain, Json::object(), other)));
  EXPECT_NE(without_prompt(latent_answer(prompted)),
            without_prompt(latent_answer(prompted, Json::object(), other)));
  EXPECT_NE(latent_answer(prompted, {{"guidance", 2.0}}).confidence,
            latent_answer(prompted).confidence);
}

TEST(LatentPolicy, WhatDoesNotFitIsRefused) {
  const auto plain = latent_decoding_model();
  test::expect_error(Code::invalid_argument, "the decoder of the model makes 16", [&] {
    latent_answer(plain, {{"gen_length", 14}});
  });
  test::expect_error(Code::failed_precondition, "reads no prompt", [&] {
    latent_answer(plain, {{"guidance", 2.0}});
  });
  test::expect_error(Code::not_found, "encoder", [] { latent_answer(tiny_model()); });
}

// dLLM-castlehill's denoiser skips its matrices in the first step, which has no estimate.
TEST(LatentPolicy, ThePublishedDenoiserIsSampled) {
  const auto model = latent_decoding_model({{"compat", "open-dllm"}, {"latent_dim", 0}});
  const Answer wanted = latent_answer(model, {{"loop", "host"}});
  EXPECT_EQ(latent_answer(model, {{"loop", "device"}}), wanted);
}

} // namespace
} // namespace dllm::decode

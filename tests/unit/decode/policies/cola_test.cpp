// Policy cola: blocks of latents. The text does not depend on the cache of the prefix, on threads,
// batches or launches, and a given token stays.

#include "noise/objective.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::decode {
namespace {

const std::vector<int32_t> kColaPrompt = {3, 1, 4, 1, 5};

// A model with the parts of objective cola, whose gates are not 0.
std::shared_ptr<model::Model> cola_decodable(int64_t threads = 1,
                                             const std::string& source = "tokens") {
  Json config = tiny_config();
  config["dllm"] = {{"block_length", 4}, {"attention", "block_causal"}};
  const auto model = tiny_model(threads, config);
  Options options(noise::objective_schema("cola"));
  options.set_json({{"latent_dim", 5},
                    {"latent_heads", 4},
                    {"encoder_layers", 1},
                    {"decoder_layers", 1},
                    {"prior_layers", 2},
                    {"source", source}});
  if (source == "states") options.set_i64("source_layer", 1);
  const auto objective = noise::make_objective("cola", nullptr, options);
  for (const auto& [name, part] : objective->new_parts(model->config()))
    model::add_new_network(*model, name, part, 5);
  uint64_t number = 0;
  for (const std::string& name : model->params().names()) {
    if (name.find('/') == std::string::npos) continue;
    Tensor values = model->params().read(name).to(DType::f32).clone();
    for (float& value : values.mutable_as<float>())
      value += 0.3f * std::sin(static_cast<float>(++number));
    model->params().write(name, values);
  }
  return model;
}

std::unique_ptr<Decoder> cola_decoder(const std::shared_ptr<model::Model>& model,
                                      const Json& more) {
  Json values = {{"policy", "cola"}, {"steps", 15}, {"gen_length", 10}};
  values.update(more);
  return make_decoder(model, values);
}

Answer cola_answer(const std::shared_ptr<model::Model>& model, const Json& more, int64_t seed) {
  const auto decoder = cola_decoder(model, more);
  decoder->add(kColaPrompt, {}, slot_options({{"seed", seed}}));
  decoder->run();
  return answer_of(*decoder);
}

TEST(ColaPolicy, OneTextForEveryWayToDecode) {
  for (const char* source : {"tokens", "states"}) {
    const auto model = cola_decodable(1, source);
    for (const double guidance : {0.0, 1.5}) {
      SCOPED_TRACE(std::string(source) + " " + std::to_string(guidance));
      const Json host = {{"loop", "host"}, {"guidance", guidance}},
                 device = {{"loop", "device"}, {"guidance", guidance}};
      const Answer wanted = cola_answer(model, host, 7);
      EXPECT_EQ(wanted.ids.size(), 15U);
      EXPECT_EQ(std::ranges::count(wanted.ids, kMask), 0);
      EXPECT_TRUE(std::equal(kColaPrompt.begin(), kColaPrompt.end(), wanted.ids.begin()));
      EXPECT_EQ(cola_answer(model, device, 7), wanted);
      EXPECT_EQ(cola_answer(cola_decodable(2, source), device, 7), wanted);
      EXPECT_NE(cola_answer(model, host, 8).ids, wanted.ids);
      const auto decoder = cola_decoder(model, device);
      for (const int64_t seed : {6, 7, 8})
        decoder->add(kColaPrompt, {}, slot_options({{"seed", seed}}));
      decoder->add(std::vector<int32_t>{2}, {}, slot_options({{"seed", 9}, {"gen_length", 3}}));
      decoder->run();
      EXPECT_EQ(answer_of(*decoder, 1), wanted);
    }
  }
}

// Returns the array of a request after its last step.
std::vector<float> cola_latents(const std::shared_ptr<model::Model>& model, const Json& more) {
  const auto decoder = cola_decoder(model, more);
  decoder->add(kColaPrompt, {}, slot_options({{"seed", 7}}));
  decoder->run();
  return decoder->request(0).array;
}

TEST(ColaPolicy, TheCacheOfThePrefixIsExact) {
  for (const double guidance : {0.0, 1.5}) {
    const auto model = cola_decodable();
    const std::vector<float> cached = cola_latents(model, {{"guidance", guidance}}),
                             computed = cola_latents(
                                 model, {{"guidance", guidance}, {"prefix_cache", false}});
    ASSERT_EQ(cached.size(), computed.size());
    for (size_t i = 0; i < cached.size(); ++i) EXPECT_NEAR(cached[i], computed[i], 2e-4) << i;
  }
}

// A block is final before the next one begins, and a longer answer has the same first blocks.
TEST(ColaPolicy, BlocksAreMadeInOrder) {
  const auto model = cola_decodable();
  const auto decoder = cola_decoder(model, {{"loop", "device"}});
  decoder->add(kColaPrompt, {}, slot_options({{"seed", 7}}));
  std::vector<int64_t> final_positions;
  while (decoder->step() != 0)
    final_positions.push_back(std::ranges::count(decoder->request(0).states, State::final));
  EXPECT_EQ(decoder->request(0).steps, 15); // blocks [4, 8), [8, 12) and [12, 15)
  EXPECT_EQ(final_positions[5], 3);
  EXPECT_EQ(final_positions[10], 7);
  const auto longer = cola_decoder(model, {{"gen_length", 14}, {"steps", 20}}); // 5 in each block
  longer->add(kColaPrompt, {}, slot_options({{"seed", 7}}));
  longer->run();
  const Answer all = answer_of(*longer), some = cola_answer(model, Json::object(), 7);
  EXPECT_TRUE(std::equal(some.ids.begin(), some.ids.begin() + 12, all.ids.begin()));
}

TEST(ColaPolicy, NeedsTheNetworksOfTheModel) {
  test::expect_error(Code::failed_precondition, "policy cola needs part encoder",
                     [] { cola_decoder(tiny_model(), Json::object()); });
}

} // namespace
} // namespace dllm::decode

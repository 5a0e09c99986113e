// Policy embedding: the text of a request does not depend on threads, batches or launches, and a
// given token stays.

#include "decode/array/solver.h"
#include "noise/latent/embedding_space.h"
#include "unit/decode/requests.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::decode {
namespace {

const std::vector<int32_t> kEmbeddingPrompt = {3, 1, 4};

std::shared_ptr<model::Model> with_inlet(int64_t threads = 1) {
  const auto model = tiny_model(threads);
  model::add_new_network(*model, noise::kInletPart, noise::inlet_config(model->config()), 4);
  return model;
}

std::unique_ptr<Decoder> embedding_decoder(const std::shared_ptr<model::Model>& model,
                                           const Json& more) {
  Json values = {{"policy", "embedding"}, {"steps", 5}, {"gen_length", 9}};
  values.update(more);
  return make_decoder(model, values);
}

Answer decoded_alone(const std::shared_ptr<model::Model>& model, const Json& more, int64_t seed) {
  const auto decoder = embedding_decoder(model, more);
  decoder->add(kEmbeddingPrompt, {}, slot_options({{"seed", seed}}));
  decoder->run();
  return answer_of(*decoder);
}

TEST(EmbeddingPolicy, OneTextForEveryWayToDecode) {
  const auto model = with_inlet();
  for (const std::string& solver : solver_names()) {
    SCOPED_TRACE(solver);
    const Json host = {{"solver", solver}, {"loop", "host"}},
               device = {{"solver", solver}, {"loop", "device"}};
    const Answer wanted = decoded_alone(model, host, 7);
    EXPECT_EQ(decoded_alone(model, device, 7), wanted);
    EXPECT_EQ(decoded_alone(with_inlet(2), device, 7), wanted);
    EXPECT_NE(decoded_alone(model, host, 8).ids, wanted.ids);
    const auto decoder = embedding_decoder(model, device);
    for (const int64_t seed : {6, 7, 8})
      decoder->add(kEmbeddingPrompt, {}, slot_options({{"seed", seed}}));
    decoder->run();
    EXPECT_EQ(answer_of(*decoder, 1), wanted);
    EXPECT_TRUE(std::equal(kEmbeddingPrompt.begin(), kEmbeddingPrompt.end(), wanted.ids.begin()));
  }
}

TEST(EmbeddingPolicy, TheOwnEstimateMatters) {
  const auto model = with_inlet();
  const Answer wanted = decoded_alone(model, Json::object(), 7);
  const std::string name = "inlet/inputs.previous.weight";
  Tensor zeros(DType::f32, model->params().read(name).shape());
  model->params().write(name, zeros);
  const auto decoder = embedding_decoder(model, Json::object());
  decoder->add(kEmbeddingPrompt, {}, slot_options({{"seed", 7}}));
  decoder->run();
  EXPECT_NE(answer_of(*decoder).ids, wanted.ids);
}

} // namespace
} // namespace dllm::decode

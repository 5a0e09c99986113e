// A model whose numbers are not finite decides nothing: a request fails and names the position and
// the operation, under every policy and with and without a cache.

#include "decode/request/policy.h"
#include "unit/counting_engine.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <limits>
#include <new>

namespace dllm::decode {
namespace {

using test::error_of;

// One number of `name` is `value`; all are, when `whole`.
std::shared_ptr<model::Model> broken_model(const std::string& name, float value, bool whole = false,
                                           std::shared_ptr<model::Model> model = tiny_model()) {
  model->params().set_checks(false);
  Tensor tensor = model->params().read(name).to(DType::f32).clone();
  for (float& x : tensor.mutable_as<float>()) {
    x = value;
    if (!whole) break;
  }
  model->params().write(name, tensor);
  return model;
}

constexpr const char* kQuery = "model.layers.1.self_attn.q_proj.weight";
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(NoNumbers, AStepNamesPositionAndOperation) {
  for (const float value : {kNan, kInfinity}) {
    const auto decoder = make_decoder(broken_model(kQuery, value), {{"gen_length", 6}});
    decoder->start(std::vector<int32_t>{1, 2}, 5);
    const Error error = error_of([&] { decoder->step(); });
    EXPECT_EQ(error.code(), Code::failed_precondition);
    EXPECT_NE(error.text().find("the logits at position 2 are not finite: [linear]"),
              std::string::npos)
        << error.text();
    EXPECT_NE(error.text().find("at layer 1 made"), std::string::npos) << error.text();
    EXPECT_EQ(decoder->request(0).open_count(0, 8), 6); // nothing was decided
  }
}

TEST(NoNumbers, EveryPolicyFails) {
  const auto model = broken_model("lm_head.weight", kNan, true);
  int failed = 0;
  for (const std::string& policy : policy_names()) {
    std::unique_ptr<Decoder> decoder;
    try {
      decoder = make_decoder(model, {{"policy", policy}, {"gen_length", 6}});
      decoder->start(std::vector<int32_t>{1, 2}, 5);
    } catch (const Error& error) {
      continue; // needs another kind of model
    }
    ++failed;
    // Some rules ask for no position in their first step.
    const Error error = error_of([&] { decoder->run(); });
    EXPECT_EQ(error.code(), Code::failed_precondition) << policy << ": " << error.text();
    EXPECT_NE(error.text().find("are not finite"), std::string::npos) << policy << error.text();
  }
  EXPECT_GT(failed, 12);
}

TEST(NoNumbers, ALoopFailsToo) {
  const auto decoder = make_decoder(broken_model(kQuery, kNan),
                                    {{"gen_length", 6}, {"loop", "device"}, {"trace", false}});
  decoder->start(std::vector<int32_t>{1, 2}, 5);
  const Error error = error_of([&] { decoder->step(); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_NE(error.text().find("the logits at position 2 are not finite"), std::string::npos)
      << error.text();
}

// Token 7 has no numbers: a loop over the slot that holds it changes no canvas.
TEST(NoNumbers, ALoopThatFailsChangesNoCanvas) {
  const std::string name = "model.embed_tokens.weight";
  const auto model = tiny_model();
  model->params().set_checks(false);
  Tensor table = model->params().read(name).to(DType::f32).clone();
  const auto width = static_cast<size_t>(table.shape()[1]);
  for (size_t i = 0; i < width; ++i) table.mutable_as<float>()[7 * width + i] = kNan;
  model->params().write(name, table);
  const auto decoder =
      make_decoder(model, {{"gen_length", 6}, {"loop", "device"}, {"trace", false}});
  decoder->add(std::vector<int32_t>{7, 2}, {}, slot_options());
  EXPECT_EQ(error_of([&] { decoder->step(); }).code(), Code::failed_precondition);
  EXPECT_EQ(decoder->request(0).open_count(0, 8), 6);
}

TEST(NoNumbers, ASearchThatFailsKeepsTheError) {
  const auto engine =
      std::make_shared<test::CountingEngine>(cpu::make_engine(Options(graph::engine_schema())));
  const auto decoder =
      make_decoder(broken_model(kQuery, kNan, false, tiny_model(engine)), {{"gen_length", 6}});
  decoder->start(std::vector<int32_t>{1, 2}, 5);
  engine->watch->at_find = [] { throw std::bad_alloc(); };
  const Error error = error_of([&] { decoder->step(); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_EQ(error.text(), "the logits at position 2 are not finite");
  engine->watch->at_find = [] { fail(Code::cancelled, "cancelled"); };
  EXPECT_EQ(error_of([&] { decoder->step(); }).code(), Code::cancelled);
}

// K and V that were written by the failed pass are not met by the next one.
TEST(NoNumbers, HealthyWeightsDecodeAgain) {
  const Json options = {{"gen_length", 8},   {"attention", "causal"},
                        {"cache", "exact"},  {"policy", "threshold"},
                        {"block_length", 4}, {"on_change", "continue"}};
  const auto model = tiny_model();
  model->params().set_checks(false);
  const auto wanted = make_decoder(model, options);
  wanted->start(std::vector<int32_t>{1, 2, 3, 4, 5}, 5);
  wanted->run();

  const Tensor healthy = model->params().read(kQuery).to(DType::f32).clone();
  const auto decoder = make_decoder(model, options);
  Tensor broken = healthy.clone();
  broken.mutable_as<float>()[3] = kNan;
  model->params().write(kQuery, broken);
  decoder->start(std::vector<int32_t>{1, 2, 3, 4, 5}, 5);
  EXPECT_THROW(decoder->step(), Error);
  model->params().write(kQuery, healthy);
  decoder->run();
  EXPECT_EQ(decoder->request(0).ids, wanted->request(0).ids);
  EXPECT_EQ(decoder->request(0).confidence, wanted->request(0).confidence);
}

TEST(NoNumbers, EveryTokenBannedIsAnError) {
  Json all = Json::array();
  for (int id = 0; id < kVocab; ++id) all.push_back(std::to_string(id));
  const auto decoder = make_decoder(tiny_model(), {{"gen_length", 6}, {"suppress", all}});
  decoder->start(std::vector<int32_t>{1, 2}, 5);
  const Error error = error_of([&] { decoder->step(); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_EQ(error.text(), "every token is banned at position 2");
}

TEST(NoNumbers, TemperaturesBelowTheBoundAreErrors) {
  for (const double temperature : {1e-38, 1e-300, 9e-7}) {
    const auto decoder =
        make_decoder(tiny_model(), {{"temperature", temperature}, {"gen_length", 4}});
    const Error error = error_of([&] { decoder->start(std::vector<int32_t>{1}, 0); });
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(error.text().find("temperature"), std::string::npos) << error.text();
  }
  const auto decoder = make_decoder(tiny_model(), {{"temperature", 1e-6}, {"gen_length", 4}});
  decoder->start(std::vector<int32_t>{1}, 0);
  decoder->run();
  const auto greedy = make_decoder(tiny_model(), {{"temperature", 0}, {"gen_length", 4}});
  greedy->start(std::vector<int32_t>{1}, 0);
  greedy->run();
  EXPECT_EQ(decoder->request(0).ids, greedy->request(0).ids);
}

} // namespace
} // namespace dllm::decode

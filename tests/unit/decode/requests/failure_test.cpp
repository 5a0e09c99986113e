// A request that fails ends alone: its canvas stays as before the step, and the others go on as if
// it had not been there.

#include "base/error.h"
#include "decode/method/setup.h"
#include "decode/request/policy.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <limits>
#include <typeinfo>

namespace dllm::decode {
namespace {

using test::error_of;
using test::expect_error;

constexpr int32_t kPoison = 7; // its embedding is not a number

std::shared_ptr<model::Model> poisoned_model(const Json& config = tiny_config()) {
  const auto model = tiny_model(1, config);
  const std::string name = config.at("model_type") == "diffusion_gemma"
                               ? "model.decoder.embed_tokens.weight"
                               : "model.embed_tokens.weight";
  model->params().set_checks(false);
  Tensor table = model->params().read(name).to(DType::f32).clone();
  const auto width = static_cast<size_t>(table.shape()[1]);
  for (size_t i = 0; i < width; ++i)
    table.mutable_as<float>()[static_cast<size_t>(kPoison) * width + i] =
        std::numeric_limits<float>::quiet_NaN();
  model->params().write(name, table);
  return model;
}

const std::vector<TestRequest> kHealthy = {{{3, 1, 4}, 11, 9}, {{9, 2, 6, 5, 3, 5, 8, 9}, 3, 12}};
const TestRequest kFailing = {{1, kPoison, 2}, 5, 8};

class AFailure : public ::testing::TestWithParam<Json> {};

TEST_P(AFailure, EndsItsRequestAlone) {
  Json config = tiny_config();
  if (GetParam().value("policy", "") == "editflow") config["model_type"] = "editflow-llama";
  const auto model = poisoned_model(config);
  // The token without numbers is never written.
  Json values = {{"steps", 6}, {"block_length", 4}, {"temperature", 0.8}, {"suppress", {"7"}}};
  values.update(GetParam());
  const auto healthy = make_decoder(model, values), mixed = make_decoder(model, values);
  for (const TestRequest& request : kHealthy) add(*healthy, request);
  healthy->run();
  add(*mixed, kHealthy[0]);
  const int64_t failing = add(*mixed, kFailing);
  add(*mixed, kHealthy[1]);
  const Answer before = answer_of(*mixed, failing);
  const Error error = error_of([&] { mixed->run(); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_NE(error.text().find("slot 1: the logits at position"), std::string::npos) << error.text();
  EXPECT_EQ(answer_of(*mixed, 0), answer_of(*healthy, 0));
  EXPECT_EQ(answer_of(*mixed, 2), answer_of(*healthy, 1));
  EXPECT_EQ(mixed->metric(0, "steps"), healthy->metric(0, "steps"));
  EXPECT_EQ(answer_of(*mixed, failing), before);
  EXPECT_EQ(mixed->metric(failing, "finish"), 3);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, AFailure,
    testing::Values(Json{{"policy", "low_confidence"}}, Json{{"policy", "threshold"}},
                    Json{{"policy", "low_confidence"}, {"cache", "prefix"}},
                    Json{{"policy", "low_confidence"}, {"cache", "dual"}},
                    Json{{"policy", "multi_block"}, {"cache", "delayed"}},
                    Json{{"policy", "low_confidence"}, {"attention", "causal"}},
                    Json{{"policy", "low_confidence"}, {"loop", "device"}}, Json{{"policy", "spd"}},
                    Json{{"policy", "spd"}, {"loop", "device"}}, Json{{"policy", "autoregressive"}},
                    Json{{"policy", "wedlm"}}, Json{{"policy", "nemotron"}},
                    Json{{"policy", "self_speculation"}}, Json{{"policy", "remdm"}},
                    Json{{"policy", "llada2"}}, Json{{"policy", "dream"}},
                    Json{{"policy", "editflow"}}),
    [](const auto& info) {
      std::string name = std::to_string(info.index);
      for (const auto& [key, value] : info.param.items())
        name += "_" + value.template get<std::string>();
      return name;
    });

TEST(Failure, IsReturnedByTheCallAfterWhichNoSlotIsActive) {
  const auto decoder = make_decoder(poisoned_model(), {{"steps", 4}, {"suppress", {"7"}}});
  add(*decoder, {{1, 2}, 5, 8});
  add(*decoder, kFailing);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(decoder->step(), 1);
  expect_error(Code::failed_precondition, "slot 1: the logits", [&] { decoder->step(); });
  EXPECT_EQ(decoder->metric(0, "finish"), 1);
  EXPECT_EQ(decoder->metric(1, "done"), 1);
  EXPECT_EQ(decoder->metric(1, "open"), 8);
  const Json slots = decoder->describe().at("slots");
  EXPECT_FALSE(slots.at(0).contains("error"));
  EXPECT_EQ(slots.at(1).at("error").at("status"), "failed_precondition");
  EXPECT_EQ(slots.at(1).at("error").at("text").get<std::string>().find("the logits at"), 0u);
  decoder->remove(1);
  EXPECT_EQ(decoder->step(), 0);
}

// Weights that were repaired: the request goes on from the canvas it had.
TEST(Failure, IsTriedAgainByALaterCall) {
  const std::string name = "model.embed_tokens.weight";
  const auto model = poisoned_model();
  const Json values = {{"steps", 4}, {"on_change", "continue"}, {"suppress", {"7"}}};
  const auto decoder = make_decoder(model, values);
  add(*decoder, {{1, 2}, 5, 8});
  add(*decoder, kFailing);
  EXPECT_THROW(decoder->run(), Error);
  EXPECT_THROW(decoder->run(), Error);
  const auto sound = tiny_model();
  model->params().write(name, sound->params().read(name).to(DType::f32).clone());
  EXPECT_TRUE(decoder->run());
  EXPECT_EQ(decoder->metric(1, "finish"), 1);
  EXPECT_FALSE(decoder->describe().at("slots").at(1).contains("error"));
  const auto fresh = make_decoder(model, values);
  add(*fresh, kFailing);
  fresh->run();
  EXPECT_EQ(answer_of(*decoder, 1), answer_of(*fresh));
}

TEST(Failure, OfPredictionsLeavesTheOthersToTheHost) {
  const auto decoder = make_decoder(poisoned_model(), {{"steps", 4}, {"suppress", {"7"}}});
  add(*decoder, {{1, 2}, 5, 8});
  add(*decoder, kFailing);
  decoder->predict();
  EXPECT_EQ(decoder->statistics(0).at("positions").shape()[0], 8);
  expect_error(Code::failed_precondition, "slot 1 has no predictions",
               [&] { decoder->statistics(1); });
  decoder->remove(0);
  expect_error(Code::failed_precondition, "the logits at", [&] { decoder->predict(); });
}

// A session that is copied as one of its base class would forget what it remembers.
TEST(Failure, StepsAreTakenOnCopiesOfTheSameClass) {
  for (const std::string& name : policy_names()) {
    const auto model = policy_model(name);
    const Options options(decoder_schema(name));
    const auto schedule = schedule_of(options, model->config());
    const auto policy = make_policy(name, policy_setup(*model, options, *schedule));
    Request request;
    request.ids.assign(8, kMask);
    request.states.assign(8, State::masked);
    request.confidence.assign(8, 0.0f);
    const auto session = policy->begin(request);
    const auto copy = session->clone();
    const Session &one = *session, &other = *copy;
    EXPECT_EQ(typeid(one), typeid(other)) << name;
  }
}

} // namespace
} // namespace dllm::decode

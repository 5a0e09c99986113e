// Steps that are left inside of a forward pass and continued later.

#include "base/error.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dllm::decode {
namespace {

using std::chrono::nanoseconds;
using test::expect_error;

constexpr nanoseconds kOneOperation{0}, kDay{std::chrono::hours(24)};
const TestRequest kSlicedRequest = {{3, 1, 4}, 11, 12};
const std::string kSlicedWeight = "model.layers.0.self_attn.v_proj.weight";

std::unique_ptr<Decoder> sliced_decoder(const std::shared_ptr<model::Model>& model,
                                        Json values = Json::object()) {
  Json all = {{"policy", "low_confidence"}, {"steps", 6}, {"gen_length", 12}};
  all.update(values);
  return make_decoder(model, all);
}

// Leaves the next step of the decoder after some operations.
void suspend(Decoder& decoder, int slices = 5) {
  for (int i = 0; i < slices; ++i) decoder.step_for(kOneOperation);
  ASSERT_TRUE(decoder.is_suspended());
  ASSERT_EQ(decoder.metric(-1, "suspended"), 1);
}

void change_the_weights(model::Model& model) {
  Tensor value = model.params().read(kSlicedWeight).to(DType::f32).clone();
  for (float& number : value.mutable_as<float>()) number = 0.5f - 2 * number;
  model.params().write(kSlicedWeight, value);
}

class Slices : public testing::TestWithParam<Json> {};

TEST_P(Slices, GiveTheTokensOfWholeSteps) {
  for (const int64_t threads : {1, 3}) {
    const auto model = tiny_model(threads);
    const auto whole = sliced_decoder(model, GetParam()),
               sliced = sliced_decoder(model, GetParam());
    for (const auto* decoder : {&whole, &sliced}) {
      add(**decoder, kSlicedRequest);
      add(**decoder, {{5, 6}, 4, 9});
    }
    for (int64_t steps = 0, active = 1; active > 0; ++steps) {
      active = whole->step();
      int64_t slices = 0, left = active;
      while (sliced->metric(0, "steps") + sliced->metric(1, "steps") <
             whole->metric(0, "steps") + whole->metric(1, "steps")) {
        left = sliced->step_for(kOneOperation);
        ++slices;
      }
      EXPECT_GT(slices, 10) << "of step " << steps;
      EXPECT_EQ(left, active);
      for (const int64_t slot : {0, 1})
        EXPECT_EQ(answer_of(*sliced, slot), answer_of(*whole, slot));
    }
    EXPECT_EQ(sliced->metric(-1, "nfe"), whole->metric(-1, "nfe"));
    EXPECT_EQ(sliced->step_for(kOneOperation), 0); // nothing left to do
  }
}

// A server adds a request in every slice: the steps end all the same, and nothing is computed
// twice.
TEST_P(Slices, AnAddedRequestWaitsForTheNextStep) {
  const auto model = tiny_model();
  const auto whole = sliced_decoder(model, GetParam()), sliced = sliced_decoder(model, GetParam());
  add(*whole, kSlicedRequest), add(*sliced, kSlicedRequest);
  suspend(*sliced, 2);
  std::vector<int64_t> waiting;
  for (int i = 0; i < 200 && sliced->metric(0, "steps") == 0; ++i) {
    waiting.push_back(add(*sliced, kSlicedRequest));
    if (waiting.size() > 3) { // it takes no part in the step
      sliced->remove(waiting.front());
      waiting.erase(waiting.begin());
    }
    sliced->step_for(kOneOperation);
  }
  EXPECT_EQ(sliced->metric(0, "steps"), 1); // the step came to its end
  sliced->run();
  whole->run();
  EXPECT_EQ(answer_of(*sliced), answer_of(*whole));
  EXPECT_EQ(sliced->metric(0, "nfe"), whole->metric(0, "nfe"));
  for (const int64_t slot : waiting)
    EXPECT_EQ(sliced->request(slot).ids, whole->request(0).ids) << slot;
}

INSTANTIATE_TEST_SUITE_P(Policies, Slices,
                         testing::Values(Json{{"temperature", 0.7}},
                                         Json{{"policy", "spd"}, {"block_length", 4}},
                                         Json{{"block_length", 4}, {"cache", "prefix"}},
                                         Json{{"policy", "random"}, {"guidance", 1.5}}));

TEST(Slices, ALongBudgetTakesAllSteps) {
  const auto model = tiny_model();
  const auto whole = sliced_decoder(model), sliced = sliced_decoder(model);
  add(*whole, kSlicedRequest), add(*sliced, kSlicedRequest);
  std::vector<std::string> events[2];
  const auto keep = [&](int side) {
    return [&events, side](const Event& event) {
      events[side].push_back(event.to_json().dump());
      return dllm::Answer::go_on;
    };
  };
  whole->run(keep(0));
  suspend(*sliced);
  EXPECT_EQ(sliced->step_for(kDay, keep(1)), 0);
  EXPECT_EQ(events[0].size(), 7u);
  EXPECT_EQ(events[1], events[0]);
  EXPECT_EQ(answer_of(*sliced), answer_of(*whole));
}

TEST(Slices, TheCallbackStopsBetweenSteps) {
  const auto decoder = sliced_decoder(tiny_model());
  add(*decoder, kSlicedRequest);
  EXPECT_EQ(decoder->step_for(kDay, [](const Event&) { return dllm::Answer::stop; }), 1);
  EXPECT_EQ(decoder->metric(0, "steps"), 1);
  EXPECT_FALSE(decoder->is_suspended());
  expect_error(Code::callback_failed, "callback",
               [&] { decoder->step_for(kDay, [](const Event&) { return dllm::Answer::fail; }); });
}

TEST(Slices, StepAndRunFinishASuspendedStep) {
  const auto model = tiny_model();
  const auto whole = sliced_decoder(model), sliced = sliced_decoder(model);
  add(*whole, kSlicedRequest), add(*sliced, kSlicedRequest);
  whole->step();
  suspend(*sliced);
  sliced->step();
  EXPECT_FALSE(sliced->is_suspended());
  EXPECT_EQ(sliced->metric(0, "steps"), 1);
  EXPECT_EQ(answer_of(*sliced), answer_of(*whole));
  suspend(*sliced);
  whole->run();
  sliced->run();
  EXPECT_EQ(sliced->metric(0, "steps"), 6);
  EXPECT_EQ(sliced->metric(0, "nfe"), 6); // nothing was computed twice
  EXPECT_EQ(answer_of(*sliced), answer_of(*whole));
}

TEST(Slices, ACancelGivesTheStepUp) {
  for (const Json& values : {Json::object(), Json{{"block_length", 4}, {"cache", "prefix"}}}) {
    const auto model = tiny_model();
    const auto whole = sliced_decoder(model, values), sliced = sliced_decoder(model, values);
    add(*whole, kSlicedRequest), add(*sliced, kSlicedRequest);
    whole->run();
    sliced->step();
    const Answer before = answer_of(*sliced);
    suspend(*sliced);
    Task task;
    task.cancel();
    expect_error(Code::cancelled, "cancelled",
                 [&] { sliced->step_for(kOneOperation, nullptr, &task); });
    EXPECT_FALSE(sliced->is_suspended());
    EXPECT_EQ(answer_of(*sliced), before);
    suspend(*sliced);
    sliced->run();
    EXPECT_EQ(sliced->metric(0, "open"), 0);
    // A pass that is given up loses K and V. Those of the approximate cache are computed anew from
    // a later canvas.
    if (values.empty()) {
      EXPECT_EQ(answer_of(*sliced), answer_of(*whole));
    }
  }
}

TEST(Slices, OtherCallsGiveTheStepUp) {
  const auto model = tiny_model();
  const auto whole = sliced_decoder(model), sliced = sliced_decoder(model);
  add(*whole, kSlicedRequest), add(*sliced, kSlicedRequest);
  const int64_t slot = add(*sliced, kSlicedRequest);
  suspend(*sliced);
  sliced->remove(slot);
  EXPECT_FALSE(sliced->is_suspended());
  suspend(*sliced);
  sliced->predict();
  EXPECT_FALSE(sliced->is_suspended());
  sliced->run();
  whole->run();
  EXPECT_EQ(answer_of(*sliced), answer_of(*whole));
  sliced->start(kSlicedRequest.prompt, 11);
  suspend(*sliced);
  sliced->start(kSlicedRequest.prompt, 11);
  EXPECT_FALSE(sliced->is_suspended());
  whole->start(kSlicedRequest.prompt, 11);
  whole->run(), sliced->run();
  EXPECT_EQ(answer_of(*sliced), answer_of(*whole));
  expect_error(Code::failed_precondition, "holds no request",
               [&] { sliced_decoder(model)->step_for(kOneOperation); });
}

// The suspended step ends with the weights it began with, the next one has the new ones.
TEST(Slices, HoldTheWeightsOfTheirStep) {
  const auto model = tiny_model(), changed = tiny_model();
  change_the_weights(*changed);
  const auto old = sliced_decoder(model), sliced = sliced_decoder(model);
  add(*old, kSlicedRequest), add(*sliced, kSlicedRequest);
  old->step();
  suspend(*sliced);
  change_the_weights(*model); // does not wait
  sliced->step();
  EXPECT_EQ(answer_of(*sliced), answer_of(*old));
  // From here on both compute with the changed weights, on the same canvas.
  old->run(), sliced->run();
  EXPECT_EQ(answer_of(*sliced), answer_of(*old));
  const auto fresh = sliced_decoder(changed);
  add(*fresh, kSlicedRequest);
  fresh->step();
  old->start(kSlicedRequest.prompt, 11);
  EXPECT_NE(answer_of(*fresh), answer_of(*sliced));
}

TEST(Slices, AReleaseGivesMemoryBack) {
  const auto model = tiny_model();
  for (int i = 0; i < 2; ++i) { // the first round leaves arenas and packed forms
    const auto decoder = sliced_decoder(model);
    add(*decoder, kSlicedRequest);
    decoder->run();
  }
  model->engine().trim();
  const int64_t before = model->engine().i64("memory_used");
  for (int i = 0; i < 3; ++i) {
    const auto decoder = sliced_decoder(model);
    add(*decoder, kSlicedRequest);
    suspend(*decoder, 3 + i);
  }
  model->engine().trim();
  EXPECT_EQ(model->engine().i64("memory_used"), before);
}

// One thread, two decoders, no memory for two passes: the second is refused or served, it never
// waits for the first.
TEST(Slices, DoNotHoldUpOtherRunsUnderAMemoryLimit) {
  const auto model = tiny_model();
  const auto first = sliced_decoder(model), second = sliced_decoder(model);
  add(*first, kSlicedRequest), add(*second, kSlicedRequest);
  first->step(), second->step();
  suspend(*first);
  model->engine().set_i64("memory_limit", model->engine().i64("memory_used") + 1);
  Task task;
  task.set_deadline(20000);
  try {
    second->step(&task);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted) << error.text();
  }
  model->engine().set_i64("memory_limit", 0);
  first->run(), second->run();
  EXPECT_EQ(answer_of(*first), answer_of(*second));
}

// A picture that follows `changed` alone shows the canvas.
TEST(Deltas, NameEveryPositionThatChanged) {
  for (const char* policy : {"low_confidence", "remdm"}) {
    const auto decoder = sliced_decoder(tiny_model(), {{"policy", policy}});
    add(*decoder, kSlicedRequest);
    std::vector<int32_t> picture = decoder->request(0).ids;
    std::vector<int32_t> states;
    for (const State state : decoder->request(0).states)
      states.push_back(static_cast<int32_t>(state));
    size_t drawn = 0;
    const auto draw = [&](const Event& event) {
      if (event.kind() != EventKind::decode_step) return dllm::Answer::go_on;
      const auto array = [&](const char* key) {
        return std::get<std::vector<int32_t>>(*event.find(key));
      };
      for (const int32_t position : array("changed")) {
        const auto at = static_cast<size_t>(position);
        EXPECT_TRUE(picture[at] != array("ids")[at] || states[at] != array("states")[at]);
        picture[at] = array("ids")[at];
        states[at] = array("states")[at];
        ++drawn;
      }
      EXPECT_EQ(picture, array("ids"));
      EXPECT_EQ(states, array("states"));
      return dllm::Answer::go_on;
    };
    decoder->step(); // without an event: the next one has it too
    decoder->run(draw);
    EXPECT_GE(drawn, 12u);
    EXPECT_LT(drawn, 12u * 6u) << "the whole canvas each time";
  }
}

} // namespace
} // namespace dllm::decode

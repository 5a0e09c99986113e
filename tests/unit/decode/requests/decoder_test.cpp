// What a request's tokens depend on (its canvas, its settings, the weights) and what they do not.

#include "decode/policies/policies.h"
#include "unit/cancel.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <thread>

namespace dllm::decode {
namespace {

const std::vector<TestRequest> kRequests = {
    {{3, 1, 4}, 11, 9}, {{}, 5, 14}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 3}};

// Draws with filters, so that the random numbers and the statistics all matter.
Json drawing(const std::string& policy) {
  Json settings = {
      {"policy", policy},      {"steps", 6},   {"block_length", 4},
      {"temperature", 0.9},    {"top_k", 20},  {"top_p", 0.95},
      {"suppress_mask", true}, {"trace", true}}; // where it may be drawn, masks may stay
  if (policy == "diffusion_gemma") settings["denoising_steps"] = 6;
  return settings;
}

class EveryPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, StepAndRunGiveTheSameTokens) {
  const auto model = policy_model(GetParam());
  const auto pulled = make_decoder(model, drawing(GetParam()));
  const auto pushed = make_decoder(model, drawing(GetParam()));
  for (const TestRequest& request : kRequests) add(*pulled, request), add(*pushed, request);
  int64_t steps = 1;
  while (pulled->step() > 0) ++steps;
  EXPECT_LE(steps, GetParam() == "llada22" ? 128 : 64); // it edits what it has decided
  int64_t events = 0;
  EXPECT_TRUE(pushed->run([&](const Event& event) {
    events += event.kind() == EventKind::decode_step;
    return dllm::Answer::go_on;
  }));
  for (int64_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(answer_of(*pulled, slot), answer_of(*pushed, slot)) << "slot " << slot;
    EXPECT_EQ(pulled->trace(slot), pushed->trace(slot));
  }
  EXPECT_EQ(events, pushed->metric(-1, "steps"));
}

TEST_P(EveryPolicy, AloneEqualsInsideABatchOfUnequalPrompts) {
  const auto model = policy_model(GetParam());
  const auto batch = make_decoder(model, drawing(GetParam()));
  for (const TestRequest& request : kRequests) add(*batch, request);
  batch->run();
  for (size_t i = 0; i < kRequests.size(); ++i) {
    const auto alone = make_decoder(model, drawing(GetParam()));
    add(*alone, kRequests[i]);
    alone->run();
    EXPECT_EQ(answer_of(*alone), answer_of(*batch, static_cast<int64_t>(i))) << "request " << i;
  }
}

TEST_P(EveryPolicy, JoiningALateBatchChangesNothing) {
  const auto model = policy_model(GetParam());
  const auto alone = make_decoder(model, drawing(GetParam()));
  add(*alone, kRequests[0]);
  alone->run();
  const auto late = make_decoder(model, drawing(GetParam()));
  add(*late, kRequests[1]);
  late->step();
  late->step();
  const int64_t slot = add(*late, kRequests[0]);
  late->step();
  late->remove(0);
  late->run();
  EXPECT_EQ(answer_of(*alone), answer_of(*late, slot));
}

TEST_P(EveryPolicy, ThreadsDoNotCount) {
  std::vector<Answer> answers;
  for (const int64_t threads : {1, 2, 4}) {
    const auto decoder = make_decoder(policy_model(GetParam(), threads), drawing(GetParam()));
    for (const TestRequest& request : kRequests) add(*decoder, request);
    decoder->run();
    for (int64_t slot = 0; slot < 3; ++slot) answers.push_back(answer_of(*decoder, slot));
  }
  for (size_t i = 3; i < answers.size(); ++i) EXPECT_EQ(answers[i], answers[i % 3]) << i;
}

TEST_P(EveryPolicy, TheSeedDecidesAndTheSlotNumberDoesNot) {
  const auto model = policy_model(GetParam());
  const auto decoder = make_decoder(model, drawing(GetParam()));
  for (const int64_t seed : {4, 5, 4}) add(*decoder, {{1, 2}, seed, 20});
  decoder->run();
  EXPECT_EQ(answer_of(*decoder, 0), answer_of(*decoder, 2));
  EXPECT_NE(answer_of(*decoder, 0).ids, answer_of(*decoder, 1).ids);
}

TEST_P(EveryPolicy, FillsTheOpenPositionsAndNothingElse) {
  if (GetParam() == "editflow") GTEST_SKIP() << "its canvas changes its length: editflow_test.cpp";
  if (GetParam() == "llada22") GTEST_SKIP() << "tokens move: nothing may be given behind open ones";
  const auto model = policy_model(GetParam());
  const auto decoder = make_decoder(model, drawing(GetParam()));
  std::vector<int32_t> canvas;
  std::vector<uint8_t> fixed;
  for (int32_t i = 0; i < 23; ++i) {
    canvas.push_back(i % 3 == 0 ? i : 999); // what stands at an open position is not looked at
    fixed.push_back(i % 3 == 0);
  }
  decoder->add(canvas, fixed, slot_options());
  std::vector<int32_t> before = decoder->request(0).ids;
  std::vector<State> states = decoder->request(0).states;
  bool active = true;
  while (active) {
    active = decoder->step() > 0;
    const Request& slot = decoder->request(0);
    for (size_t i = 0; i < canvas.size(); ++i) {
      if (fixed[i] != 0) {
        EXPECT_EQ(slot.ids[i], canvas[i]);
      }
      EXPECT_EQ(slot.states[i] == State::fixed, fixed[i] != 0);
      // A decided token stays.
      if (states[i] == State::final) {
        EXPECT_EQ(slot.ids[i], before[i]);
      }
      EXPECT_EQ(slot.ids[i] == kMask, slot.states[i] == State::masked);
    }
    before = slot.ids;
    states = slot.states;
  }
  const Request& done = decoder->request(0);
  EXPECT_EQ(done.open_count(0, done.length()), 0);
  for (size_t i = 0; i < canvas.size(); ++i) {
    EXPECT_GT(done.confidence[i], 0);
    EXPECT_LE(done.confidence[i], 1);
    if (fixed[i] != 0) {
      EXPECT_EQ(done.confidence[i], 1);
    }
  }
  EXPECT_EQ(decoder->metric(0, "decided"), 15);
  EXPECT_EQ(decoder->metric(0, "finish"), 1);
}

TEST_P(EveryPolicy, CancellingLosesNothing) {
  const auto model = policy_model(GetParam());
  const auto whole = make_decoder(model, drawing(GetParam()));
  const auto cut = make_decoder(model, drawing(GetParam()));
  for (const TestRequest& request : kRequests) add(*whole, request), add(*cut, request);
  whole->run();
  cut->step();
  const Answer before = answer_of(*cut, 1);
  // In the middle of the pass: a twin takes the same step whole and counts its checks.
  const auto twin = make_decoder(model, drawing(GetParam()));
  for (const TestRequest& request : kRequests) add(*twin, request);
  twin->step();
  const int64_t checks = test::count_checks([&](const Task* task) { twin->step(task); });
  EXPECT_GT(checks, 20); // every kernel of every layer
  for (const int64_t at : test::some_of(checks)) {
    const int64_t late = test::cancel_at(at, [&](const Task* task) { cut->step(task); });
    EXPECT_LE(late, model->engine().i64("threads")) << "checks after check " << at;
    EXPECT_EQ(answer_of(*cut, 1), before) << "check " << at << " of " << checks;
  }
  test::cancel_at(checks / 2, [&](Task* task) { cut->run(nullptr, task); });
  EXPECT_EQ(answer_of(*cut, 1), before);
  cut->run();
  for (int64_t slot = 0; slot < 3; ++slot)
    EXPECT_EQ(answer_of(*cut, slot), answer_of(*whole, slot));
}

TEST_P(EveryPolicy, StoppingFromTheCallbackLosesNothing) {
  const auto model = policy_model(GetParam());
  const auto whole = make_decoder(model, drawing(GetParam()));
  const auto cut = make_decoder(model, drawing(GetParam()));
  add(*whole, kRequests[1]);
  add(*cut, kRequests[1]);
  whole->run();
  int stops = 0;
  while (!cut->run([](const Event&) { return dllm::Answer::stop; })) ++stops;
  EXPECT_GT(stops, 2);
  EXPECT_EQ(answer_of(*cut), answer_of(*whole));
}

// A tokenizer with holes in its numbers, and fewer of them than the model has rows.
TEST_P(EveryPolicy, IdsWithoutATokenAreNeverDrawn) {
  const auto model = policy_model(GetParam());
  static constexpr std::string_view kTokenizer =
      R"({"model": {"type": "BPE", "vocab": {"a": 1, "b": 2, "c": 3, "d": 9, "e": 20}, "merges": []}})";
  model->set_side_file("tokenizer.json", Bytes(kTokenizer.data(), kTokenizer.size(), nullptr));
  Json settings = drawing(GetParam());
  settings["temperature"] = 3.0;
  settings["top_k"] = 0;
  settings["top_p"] = 1.0;
  const auto decoder = make_decoder(model, settings);
  for (int64_t seed = 0; seed < 3; ++seed) add(*decoder, {{1, 2}, seed, 12});
  decoder->run();
  const std::set<int32_t> tokens = {1, 2, 3, 9, 20};
  for (int64_t slot = 0; slot < 3; ++slot) {
    const Request& request = decoder->request(slot);
    for (size_t i = 0; i < request.ids.size(); ++i) {
      if (request.states[i] == State::masked) continue;
      EXPECT_EQ(tokens.count(request.ids[i]), 1u) << "slot " << slot << " id " << request.ids[i];
    }
  }
  settings["suppress_unused"] = false;
  make_decoder(model, settings);
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy, ::testing::ValuesIn(policy_names()),
                         [](const auto& info) { return info.param; });

TEST(Decoder, DecidesAsManyAsTheScheduleSays) {
  const auto decoder =
      make_decoder(tiny_model(), {{"policy", "random"}, {"steps", 5}, {"gen_length", 16}});
  decoder->start(std::vector<int32_t>{1, 2}, 3);
  std::vector<int64_t> counts;
  int64_t open = 16;
  for (bool active = true; active;) {
    active = decoder->step() > 0;
    const auto left = static_cast<int64_t>(decoder->metric(0, "open"));
    counts.push_back(open - left);
    open = left;
  }
  EXPECT_EQ(counts, transfer_counts(*noise::make_schedule("linear"), 16, 5));
}

TEST(Decoder, BlocksAreDecidedInOrder) {
  const auto decoder =
      make_decoder(tiny_model(), {{"steps", 8}, {"gen_length", 16}, {"block_length", 4}});
  decoder->start(std::vector<int32_t>{1, 2, 3}, 3);
  std::vector<int64_t> blocks;
  decoder->run([&](const Event& event) {
    if (event.kind() == EventKind::block) blocks.push_back(std::get<int64_t>(*event.find("begin")));
    if (event.kind() != EventKind::decode_step) return dllm::Answer::go_on;
    // Nothing behind the block that is being decided is touched.
    const auto& states = std::get<std::vector<int32_t>>(*event.find("states"));
    const int64_t block = std::get<int64_t>(*event.find("block"));
    for (int64_t i = 3 + (block + 1) * 4; i < 19; ++i) EXPECT_EQ(states[static_cast<size_t>(i)], 0);
    return dllm::Answer::go_on;
  });
  EXPECT_EQ(blocks, (std::vector<int64_t>{3, 7, 11, 15}));
}

TEST(Decoder, AStopTokenEndsARequest) {
  const Json settings = {{"steps", 12}, {"gen_length", 12}, {"block_length", 1}};
  const auto model = tiny_model();
  const auto whole = make_decoder(model, settings);
  whole->start(std::vector<int32_t>{7, 8, 9}, 1);
  whole->run();
  const std::vector<int32_t> ids = whole->request(0).ids;
  const int32_t stop = ids[5];
  const auto first = static_cast<size_t>(std::find(ids.begin() + 3, ids.end(), stop) - ids.begin());

  const auto stopped = make_decoder(model, settings);
  stopped->add(std::vector<int32_t>{7, 8, 9}, {},
               slot_options({{"seed", 1}, {"stop", {std::to_string(stop)}}}));
  stopped->run();
  const Request& slot = stopped->request(0);
  EXPECT_EQ(slot.finish, Finish::stopped);
  EXPECT_EQ(slot.steps, static_cast<int64_t>(first) - 2);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(slot.ids[i], i <= first ? ids[i] : stop) << i;
  EXPECT_EQ(slot.open_count(0, slot.length()), 0);
}

TEST(Decoder, AStopTokenInThePromptDoesNot) {
  const auto decoder = make_decoder(tiny_model(), {{"gen_length", 6}, {"suppress", {"7"}}});
  decoder->add(std::vector<int32_t>{7, 7}, {}, slot_options({{"stop", {"7"}}}));
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "finish"), 1);
}

TEST(Decoder, SuppressedTokensAndTheMaskAreNeverDrawn) {
  std::vector<std::string> suppress;
  for (int i = 0; i < 28; ++i) suppress.push_back(std::to_string(i));
  const auto decoder = make_decoder(
      tiny_model(),
      {{"gen_length", 40}, {"temperature", 5.0}, {"suppress", suppress}, {"trace", false}});
  for (int64_t seed = 0; seed < 8; ++seed) add(*decoder, {{1}, seed, 40});
  decoder->run();
  for (int64_t slot = 0; slot < 8; ++slot) {
    for (size_t i = 1; i < 41; ++i) {
      EXPECT_TRUE(decoder->request(slot).ids[i] == 28 || decoder->request(slot).ids[i] == 29);
    }
  }
}

TEST(Decoder, NothingOpenIsDoneAtOnce) {
  const auto decoder = make_decoder(tiny_model());
  const std::vector<int32_t> canvas = {1, 2};
  decoder->add(canvas, std::vector<uint8_t>{1, 1}, slot_options());
  EXPECT_TRUE(decoder->run());
  EXPECT_EQ(decoder->request(0).ids, canvas);
  EXPECT_EQ(decoder->metric(-1, "nfe"), 0);
}

TEST(Decoder, DecodersOfOneModelRunTogether) {
  const auto model = tiny_model(2);
  const auto alone = make_decoder(model, drawing("low_confidence"));
  add(*alone, kRequests[0]);
  alone->run();
  std::vector<Answer> answers(4);
  std::vector<std::thread> threads;
  for (Answer& answer : answers) {
    threads.emplace_back([&model, &answer] {
      const auto decoder = make_decoder(model, drawing("low_confidence"));
      add(*decoder, kRequests[0]);
      decoder->run();
      answer = answer_of(*decoder);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Answer& answer : answers) EXPECT_EQ(answer, answer_of(*alone));
}

TEST(Decoder, FollowsTheModelsWeights) {
  const auto model = tiny_model();
  const auto decoder = make_decoder(model, {{"gen_length", 8}, {"steps", 8}});
  const auto strict = make_decoder(model, {{"gen_length", 8}, {"steps", 8}, {"on_change", "fail"}});
  decoder->start({}, 0);
  strict->start({}, 0);
  decoder->step();
  strict->step();
  // All logits but one alike: the rest of the canvas is that token.
  Tensor head = model->params().read("lm_head.weight").clone();
  for (float& value : head.mutable_as<float>()) value = 0;
  model->params().write("lm_head.weight", head);
  decoder->run();
  const Request& slot = decoder->request(0);
  int64_t zeros = 0;
  for (int32_t id : slot.ids) zeros += id == 0;
  EXPECT_GE(zeros, 7); // equal logits: the lowest id
  test::expect_error(Code::failed_precondition, "weights changed", [&] { strict->step(); });
}

} // namespace
} // namespace dllm::decode

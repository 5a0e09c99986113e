// Multi-block decoding: when blocks begin, what is decided, and that an exact cache is not seen.

#include "decode/policies/multi_block.h"
#include "unit/cancel.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using test::expect_error;

Json multi(const Json& more = Json::object()) {
  Json values = {{"policy", "multi_block"}, {"block_length", 4}};
  values.update(more);
  return values;
}

const std::vector<TestRequest> kRequests = {
    {{3, 1, 4}, 11, 9}, {{}, 5, 14}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 13}, {{7, 7, 7, 7, 7}, 2, 2}};

// A session fed with entropies that never change (worked example of scrya-com/dLLM-castlehill);
// returns what every step decides, as places behind the prompt.
std::vector<std::vector<int64_t>> decided_with(const std::vector<float>& entropies,
                                               const Json& more) {
  const auto model = tiny_model();
  Options options(decoder_schema("multi_block"));
  options.set_json(multi(more));
  const auto schedule = noise::make_schedule("linear");
  const auto policy =
      make_policy("multi_block", {options, *schedule, model->config(), kMask, AttentionSpan{}, 0});
  Request slot;
  slot.prompt = 2;
  slot.ids.assign(2 + entropies.size(), kMask);
  slot.states.assign(slot.ids.size(), State::masked);
  slot.confidence.assign(slot.ids.size(), 0.0f);
  for (const int64_t given : {0, 1}) slot.decide(given, 1, 1.0f, State::fixed);
  const auto session = policy->begin(slot);
  std::vector<std::vector<int64_t>> steps;
  while (slot.active() && steps.size() < 99) {
    const PassRequest ask = session->next_pass(slot, {});
    std::vector<Prediction> predictions;
    for (const int64_t position : ask.positions) {
      Prediction p;
      p.position = position;
      p.token = 3;
      p.top_ids = {3, 4};
      p.top_probs = {0.5f, 0.1f};
      p.entropy = entropies[static_cast<size_t>(position - 2)];
      predictions.push_back(p);
    }
    steps.push_back(session->apply(slot, ask, predictions).decided);
    for (int64_t& position : steps.back()) position -= 2;
    ++slot.steps;
  }
  return steps;
}

// The prediction of a place behind the prompt: the same in every step.
struct Said {
  int32_t token;
  float entropy;
};

// The canvas behind a prompt of 2 after all steps, and how it ended.
std::pair<std::vector<int32_t>, Finish> canvas_of(const std::vector<Said>& said, const Json& more) {
  const auto model = tiny_model();
  Options options(decoder_schema("multi_block"));
  options.set_json(multi(more));
  const auto schedule = noise::make_schedule("linear");
  const auto policy =
      make_policy("multi_block", {options, *schedule, model->config(), kMask, AttentionSpan{}, 0});
  Request slot;
  slot.prompt = 2;
  slot.ids.assign(2 + said.size(), kMask);
  slot.states.assign(slot.ids.size(), State::masked);
  slot.confidence.assign(slot.ids.size(), 0.0f);
  for (const int64_t given : {0, 1}) slot.decide(given, 1, 1.0f, State::fixed);
  const auto session = policy->begin(slot);
  for (int step = 0; slot.active() && step < 99; ++step, ++slot.steps) {
    const PassRequest ask = session->next_pass(slot, {});
    std::vector<Prediction> predictions;
    for (const int64_t position : ask.positions) {
      const Said& own = said[static_cast<size_t>(position - 2)];
      Prediction p;
      p.position = position;
      p.token = own.token;
      p.entropy = own.entropy;
      p.top_ids = {own.token, 4};
      p.top_probs = {0.5f, 0.1f};
      predictions.push_back(p);
    }
    session->apply(slot, ask, predictions);
  }
  return {{slot.ids.begin() + 2, slot.ids.end()}, slot.finish};
}

// The loops of d3LLM and dLLM-castlehill fill behind EOS when a round begins, and end before that
// when no mask is left: what the last round decided behind EOS stays.
TEST(MultiBlock, TheOriginalsLeaveWhatTheLastStepDecidedBehindEos) {
  static constexpr int32_t kEos = 3;
  using Ids = std::vector<int32_t>;
  const std::vector<Said> last = {{5, 0.1f}, {6, 0.1f},    {7, 0.1f},  {8, 0.1f},
                                  {9, 0.1f}, {kEos, 0.1f}, {10, 0.1f}, {11, 0.1f}};
  const auto with = [](const char* compat, const char* cache) {
    return Json{{"eos", kEos}, {"compat", compat}, {"cache", cache}, {"block_add", 1.0}};
  };
  for (const char* cache : {"none", "delayed"}) {
    for (const char* compat : {"d3llm-dream", "d3llm-llada", "castlehill"}) {
      EXPECT_EQ(canvas_of(last, with(compat, cache)),
                std::pair(Ids({5, 6, 7, 8, 9, kEos, 10, 11}), Finish::stopped))
          << compat << cache;
    }
    EXPECT_EQ(canvas_of(last, with("none", cache)),
              std::pair(Ids({5, 6, 7, 8, 9, kEos, kEos, kEos}), Finish::stopped));
  }
  // EOS comes before a mask of its block is decided: what was filled behind it competes once more
  // in the round that decides that mask, the last one.
  const std::vector<Said> early = {{5, 2.0f}, {kEos, 0.1f}, {7, 0.1f},  {8, 0.1f},
                                   {9, 0.1f}, {10, 2.0f},   {11, 0.1f}, {12, 0.1f}};
  EXPECT_EQ(canvas_of(early, with("d3llm-dream", "delayed")),
            std::pair(Ids({5, kEos, kEos, kEos, 9, kEos, 11, 12}), Finish::stopped));
  EXPECT_EQ(canvas_of(early, with("castlehill", "delayed")),
            std::pair(Ids({5, kEos, kEos, kEos, kEos, kEos, kEos, kEos}), Finish::stopped));
  EXPECT_EQ(canvas_of(early, with("none", "delayed")),
            std::pair(Ids({5, kEos, kEos, kEos, kEos, kEos, kEos, kEos}), Finish::stopped));
}

using Steps = std::vector<std::vector<int64_t>>;
const std::vector<float> kEntropies = {0.1f, 0.5f, 1.2f, 2.0f, 0.3f, 1.5f, 0.2f, 0.8f};

TEST(MultiBlock, BeginsTheNextBlockWhileOneIsOpen) {
  EXPECT_EQ(decided_with(kEntropies, Json::object()), (Steps{{0, 1}, {2, 4, 6, 7}, {3}, {5}}));
  EXPECT_EQ(decided_with(kEntropies, {{"block_add", 0.1}, {"block_activate", 0.95}}),
            (Steps{{0, 1}, {2, 4, 6, 7}, {3}, {5}}));
}

TEST(MultiBlock, OneBlockAfterTheOtherWhereTheyMustBeDone) {
  EXPECT_EQ(decided_with(kEntropies, {{"block_add", 1.0}, {"block_activate", 1.0}}),
            (Steps{{0, 1}, {2}, {3}, {4, 6, 7}, {5}}));
}

TEST(MultiBlock, TheSurestOfAllIsNoStepOfTheLeadingBlock) {
  // Nothing is below the threshold. The surest lies in block 2 as soon as that began (step 3); the
  // leading block has its own token then.
  const Json none = {{"entropy_threshold", 0.0}, {"surest", true}};
  EXPECT_EQ(decided_with(kEntropies, none), (Steps{{0}, {1}, {2, 6}, {3, 4}, {7}, {5}}));
  EXPECT_EQ(decided_with(kEntropies, {{"entropy_threshold", 0.0}}),
            (Steps{{0}, {1}, {2}, {3}, {6}, {4}, {7}, {5}}));
}

class Exact : public ::testing::TestWithParam<std::string> {};

// The early end, the shift and low thresholds move what a cache keeps.
TEST_P(Exact, CacheGivesTheBitsOfNone) {
  const auto model = tiny_model(2);
  for (const int shift : {0, 1}) {
    for (const Json& knobs :
         {Json{{"entropy_threshold", 2.2}}, Json{{"entropy_threshold", 3.0}, {"block_add", 0.0}},
          Json{{"temperature", 0.9}, {"block_activate", 1.0}, {"surest", true}},
          Json{{"entropy_threshold", 2.5}, {"eos", 3}, {"temperature", 2.0}}}) {
      Json both = multi({{"attention", GetParam()}, {"shift", shift}});
      both.update(knobs);
      Json none = both;
      none["cache"] = "none";
      const auto cached = make_decoder(model, both), plain = make_decoder(model, none);
      for (const TestRequest& request : kRequests) add(*cached, request), add(*plain, request);
      cached->run(), plain->run();
      for (int64_t slot = 0; slot < 4; ++slot)
        EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot))
            << "slot " << slot << " " << both.dump();
      EXPECT_GT(cached->metric(-1, "cache_bytes"), 0);
      EXPECT_EQ(plain->metric(-1, "cache_bytes"), 0);
      EXPECT_EQ(cached->metric(-1, "open"), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MultiBlock, Exact, ::testing::Values("block_causal", "causal"),
                         [](const auto& info) { return info.param; });

TEST(MultiBlock, TakesFewerStepsThanTokens) {
  const auto decoder = make_decoder(tiny_model(), multi({{"entropy_threshold", 2.5}}));
  add(*decoder, {{1, 2, 3}, 0, 24});
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "open"), 0);
  EXPECT_LT(decoder->metric(0, "nfe"), 24);
}

TEST(MultiBlock, DelayedCacheDecodesAndSaysWhatItIs) {
  const auto model = tiny_model();
  for (const int delay : {0, 1, 3}) {
    for (const int refresh : {0, 2}) {
      const auto decoder = make_decoder(
          model, multi({{"cache", "delayed"}, {"cache_delay", delay}, {"cache_refresh", refresh}}));
      for (const TestRequest& request : kRequests) add(*decoder, request);
      const auto whole = make_decoder(
          model, multi({{"cache", "delayed"}, {"cache_delay", delay}, {"cache_refresh", refresh}}));
      for (const TestRequest& request : kRequests) add(*whole, request);
      decoder->step(), whole->step();
      const int64_t checks = test::count_checks([&](const Task* task) { whole->step(task); });
      for (const int64_t at : test::some_of(checks)) {
        const std::vector<int32_t> before = decoder->request(0).ids;
        test::cancel_at(at, [&](const Task* task) { decoder->step(task); });
        EXPECT_EQ(decoder->request(0).ids, before) << "check " << at << " of " << checks;
      }
      decoder->run();
      EXPECT_EQ(decoder->metric(-1, "open"), 0);
      EXPECT_NE(decoder->describe().dump().find("cache delayed: K and V"), std::string::npos);
    }
  }
  // Full passes alone are the run without a cache.
  const auto always = make_decoder(model, multi({{"cache", "delayed"}, {"cache_delay", 99}}));
  const auto none = make_decoder(model, multi());
  for (const TestRequest& request : kRequests) add(*always, request), add(*none, request);
  always->run(), none->run();
  for (int64_t slot = 0; slot < 4; ++slot)
    EXPECT_EQ(answer_of(*always, slot), answer_of(*none, slot)) << slot;
}

TEST(MultiBlock, AnEosTakesAllBehindIt) {
  const auto model = tiny_model();
  const TestRequest request{{3, 1, 4}, 11, 20};
  const auto whole = make_decoder(model, multi({{"entropy_threshold", 2.2}}));
  add(*whole, request);
  whole->run();
  const std::vector<int32_t> ids = whole->request(0).ids;
  const int32_t eos = ids[9];
  const auto first = std::find(ids.begin() + 3, ids.end(), eos) - ids.begin();
  const auto decoder = make_decoder(model, multi({{"entropy_threshold", 2.2}, {"eos", eos}}));
  add(*decoder, request);
  std::vector<int32_t> before = decoder->request(0).ids;
  std::vector<State> states = decoder->request(0).states;
  for (bool active = true; active;) {
    active = decoder->step() > 0;
    const Request& slot = decoder->request(0);
    for (size_t i = 0; i < before.size(); ++i) {
      if (states[i] == State::final || states[i] == State::fixed) {
        EXPECT_EQ(slot.ids[i], before[i]) << i;
      }
    }
    before = slot.ids;
    states = slot.states;
  }
  const Request& slot = decoder->request(0);
  EXPECT_EQ(slot.finish, Finish::stopped);
  const auto end = std::find(slot.ids.begin() + 3, slot.ids.end(), eos) - slot.ids.begin();
  EXPECT_LE(end, first);
  for (size_t i = static_cast<size_t>(end); i < slot.ids.size(); ++i) EXPECT_EQ(slot.ids[i], eos);
  EXPECT_LE(decoder->metric(0, "steps"), whole->metric(0, "steps"));
}

TEST(MultiBlock, ADrawnMaskGivesWayToTheLikeliestToken) {
  // Every logit but the mask's and token 4's is low: the mask is the likeliest.
  const auto model = tiny_model();
  Tensor head = model->params().read("lm_head.weight").clone();
  const int64_t width = head.shape()[1];
  for (float& value : head.mutable_as<float>()) value = 0;
  for (int64_t i = 0; i < width; ++i)
    head.mutable_as<float>()[static_cast<size_t>(kMask * width + i)] = 0.01f;
  model->params().write("lm_head.weight", head);
  const auto decoder = make_decoder(model, multi({{"suppress_mask", false}}));
  add(*decoder, {{1, 2, 3}, 0, 9});
  for (int i = 0; i < 20 && decoder->step() > 0; ++i) {
  }
  EXPECT_EQ(decoder->metric(0, "open"), 0);
}

TEST(MultiBlock, RefusesWhatDoesNotFit) {
  const auto model = tiny_model();
  const auto refuse = [&](const Json& more, const char* what) {
    expect_error(Code::invalid_argument, what, [&] { make_decoder(model, multi(more)); });
  };
  refuse({{"cache", "exact"}}, "cache exact needs causal or block_causal");
  refuse({{"cache", "delayed"}, {"attention", "block_causal"}}, "cache delayed approximates");
  refuse({{"cache", "dual"}}, "cache");
  refuse({{"guidance", 1.5}}, "guidance 1.5");
  refuse({{"eos", kVocab}}, "eos is 31");
}

} // namespace
} // namespace dllm::decode

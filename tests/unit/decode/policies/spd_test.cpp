// Soft parallel decoding: its two formulas, and what its three implementations have in common.

#include "decode/policies/spd.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using test::expect_error;
using Bits = std::vector<uint8_t>;

Json with(Json values, const Json& more) {
  values.update(more);
  return values;
}

Json spd(const Json& more = Json::object()) {
  return with({{"policy", "spd"}, {"block_length", 4}, {"suppress_mask", true}}, more);
}

const std::vector<TestRequest> kRequests = {
    {{3, 1, 4}, 11, 9}, {{}, 5, 14}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 13}, {{7, 7, 7, 7, 7}, 2, 2}};

TEST(SpdRule, TakesTheLeadingSureMasks) {
  const auto set = [](const Bits& open, const std::vector<float>& probability, float threshold) {
    return spd_decode_set(open, probability, threshold);
  };
  EXPECT_EQ(set({1, 1, 1, 1}, {.9f, .8f, .3f, .99f}, .5f), (Bits{1, 1, 0, 0}));
  EXPECT_EQ(set({1, 1, 1, 1}, {.3f, .9f, .9f, .9f}, .5f), (Bits{1, 0, 0, 0}));
  EXPECT_EQ(set({0, 1, 1, 0}, {.1f, .6f, .7f, .1f}, .5f), (Bits{0, 1, 1, 0}));
  EXPECT_EQ(set({1, 0, 1, 1}, {.9f, .1f, .9f, .2f}, .5f), (Bits{1, 0, 1, 0}));
  EXPECT_EQ(set({0, 0, 0, 0}, {.9f, .9f, .9f, .9f}, .5f), (Bits{0, 0, 0, 0}));
  EXPECT_EQ(set({1, 1, 0, 1}, {.5f, .49f, .9f, .9f}, .5f), (Bits{1, 0, 0, 0})); // equal passes
  EXPECT_EQ(set({1, 1, 1, 1}, {.1f, .2f, .3f, .4f}, 0), (Bits{1, 1, 1, 1}));
}

struct Knobs {
  std::string name;
  Json values;
  friend void PrintTo(const Knobs& knobs, std::ostream* out) { *out << knobs.name; }
};

class Implementations : public ::testing::TestWithParam<Knobs> {};

// A batch of unequal prompts, so that blocks begin and end at different steps.
TEST_P(Implementations, GiveTheSameBits) {
  for (const int shift : {0, 1}) {
    const auto model = tiny_model(2);
    std::vector<std::unique_ptr<Decoder>> decoders;
    for (const Json& own : {Json{{"implementation", "reference"}}, Json{{"implementation", "fast"}},
                            Json{{"implementation", "fast"}, {"bucket_length", 8}},
                            Json{{"implementation", "kv_fast"}}}) {
      decoders.push_back(
          make_decoder(model, with(with(spd({{"shift", shift}}), own), GetParam().values)));
      for (const TestRequest& request : kRequests) add(*decoders.back(), request);
      decoders.back()->run();
    }
    for (size_t i = 1; i < decoders.size(); ++i) {
      for (int64_t slot = 0; slot < 4; ++slot) {
        EXPECT_EQ(answer_of(*decoders[i], slot), answer_of(*decoders[0], slot))
            << "decoder " << i << " slot " << slot << " shift " << shift;
        EXPECT_EQ(decoders[i]->metric(slot, "steps"), decoders[0]->metric(slot, "steps"));
      }
    }
    EXPECT_GT(decoders[3]->metric(-1, "commits"), 0);
    EXPECT_GT(decoders[3]->metric(-1, "cache_bytes"), 0);
    EXPECT_EQ(decoders[1]->metric(-1, "cache_bytes"), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Spd, Implementations,
    ::testing::Values(Knobs{"defaults", Json::object()},
                      Knobs{"low_threshold", {{"threshold", 0.2}}},
                      Knobs{"all_at_once", {{"threshold", 0.0}, {"confidence_stop", 2.0}}},
                      Knobs{"mix_of_three", {{"mix_top_k", 3}, {"threshold", 0.3}}},
                      Knobs{"drawn", {{"temperature", 0.8}, {"top_k", 9}, {"threshold", 0.1}}},
                      Knobs{"early_end", {{"threshold", 0.2}, {"confidence_stop", 0.3}}},
                      Knobs{"eos", {{"threshold", 0.1}, {"temperature", 1.5}, {"eos", 3}}},
                      Knobs{"masks_drawn", {{"temperature", 3.0}, {"suppress_mask", false}}}),
    [](const auto& info) { return info.param.name; });

TEST(Spd, CountsStepsPrefillsAndHardWrites) {
  const auto decoder = make_decoder(tiny_model(), spd({{"confidence_stop", 2.0}}));
  add(*decoder, kRequests[2]); // 8 given, 13 open: blocks 2 to 5
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "prefills"), 1);
  EXPECT_EQ(decoder->metric(0, "commits"), 3); // behind the last block: unused
  EXPECT_EQ(decoder->metric(0, "nfe"), decoder->metric(0, "steps") + 4);
  const auto fast = make_decoder(tiny_model(), spd({{"implementation", "fast"}}));
  add(*fast, kRequests[2]);
  fast->run();
  EXPECT_EQ(fast->metric(0, "nfe"), fast->metric(0, "steps"));
}

TEST(Spd, TokensOfTheBlockAreProvisionalUntilItEnds) {
  const auto decoder = make_decoder(tiny_model(), spd({{"confidence_stop", 2.0}}));
  add(*decoder, kRequests[0]);
  int64_t provisional = 0, revised = 0;
  std::vector<int32_t> before = decoder->request(0).ids;
  std::vector<State> states = decoder->request(0).states;
  for (bool active = true; active;) {
    const int64_t block = decoder->request(0).block_begin();
    active = decoder->step() > 0;
    const Request& slot = decoder->request(0);
    for (size_t i = 0; i < before.size(); ++i) {
      provisional += slot.states[i] == State::provisional;
      if (slot.states[i] == State::provisional) {
        EXPECT_GE(static_cast<int64_t>(i), block);
      }
      if (states[i] == State::provisional) revised += slot.ids[i] != before[i];
      if (states[i] == State::final || states[i] == State::fixed) {
        EXPECT_EQ(slot.ids[i], before[i]);
      }
    }
    before = slot.ids;
    states = slot.states;
  }
  EXPECT_GT(provisional, 0);
  EXPECT_GT(revised, 0);
  EXPECT_EQ(std::count(states.begin(), states.end(), State::provisional), 0);
}

TEST(Spd, StepsAreOfABlockAndMasksMayStay) {
  const auto decoder =
      make_decoder(tiny_model(), spd({{"steps", 2}, {"threshold", 1.0}, {"confidence_stop", 2.0}}));
  add(*decoder, {{1, 2, 3, 4}, 0, 8}); // two blocks, of each the two leftmost
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "steps"), 4);
  EXPECT_EQ(decoder->metric(0, "open"), 4);
  EXPECT_EQ(decoder->metric(0, "done"), 1);
  const auto capped = make_decoder(
      tiny_model(), spd({{"minimal_topk", 8}, {"threshold", 1.0}, {"confidence_stop", 2.0}}));
  add(*capped, {{1, 2, 3, 4}, 0, 8}); // 8 open / 8: one step a block
  capped->run();
  EXPECT_EQ(capped->metric(0, "steps"), 2);
}

// A toy model that looks at positions and counts alone: V = 13, mask 12,
// EOS 5, blocks of 4.
struct Toy {
  std::vector<int32_t> ids;
  int64_t nfe = 0, steps = 0;
};

Toy toy(const std::vector<int32_t>& prompt, int64_t length, const Json& more) {
  constexpr int32_t kToyMask = 12;
  Json config = tiny_config();
  config.update({{"vocab_size", 13}, {"mask_token_id", kToyMask}});
  const auto model = tiny_model(1, config);
  Options options(decoder_schema("spd"));
  options.set_json(with(spd({{"suppress_mask", false}, {"eos", 5}, {"threshold", 0.5}}), more));
  const auto schedule = noise::make_schedule("linear");
  const auto policy =
      make_policy("spd", {options, *schedule, model->config(), kToyMask, AttentionSpan{}, 0});
  Request slot;
  slot.ids.assign(static_cast<size_t>(length), kToyMask);
  slot.states.assign(slot.ids.size(), State::masked);
  slot.confidence.assign(slot.ids.size(), 0.0f);
  slot.prompt = static_cast<int64_t>(prompt.size());
  for (size_t i = 0; i < prompt.size(); ++i)
    slot.decide(static_cast<int64_t>(i), prompt[i], 1.0f, State::fixed);
  const auto session = policy->begin(slot);
  CacheView view;
  while (slot.active() && slot.steps < 99) {
    const PassRequest ask = session->next_pass(slot, view);
    std::vector<Prediction> said;
    if (ask.cached) view.final_end = ask.final_end;
    const int64_t known = 4 - slot.open_count(slot.block_begin(), slot.block_end());
    for (const int64_t p : ask.positions) {
      Prediction made;
      made.position = p;
      made.token = made.argmax = static_cast<int32_t>((7 * p + 3) % 11);
      made.probability = made.max_probability = std::min(
          0.99f, 0.30f + 0.08f * static_cast<float>(known) + 0.05f * static_cast<float>(p % 4));
      made.top_ids = {made.token};
      made.top_probs = {made.probability};
      said.push_back(made);
    }
    session->apply(slot, ask, said);
    if (ask.kind == PassKind::step) ++slot.steps, ++slot.evaluations;
  }
  return {slot.ids, session->nfe(slot), slot.steps};
}

TEST(Spd, FollowsTheToyModel) {
  using Ids = std::vector<int32_t>;
  const Ids prompt = {1, 2, 3, 4, 6, 7};
  const auto cut = [](Toy made, size_t length) {
    made.ids.resize(length);
    return made.ids;
  };
  const Toy first = toy(prompt, 20, Json::object());
  EXPECT_EQ(cut(first, 18), (Ids{1, 2, 3, 4, 6, 7, 1, 8, 4, 0, 7, 3, 10, 6, 2, 9, 5, 1}));
  EXPECT_EQ(first.steps, 14);
  EXPECT_EQ(first.nfe, 18);
  EXPECT_EQ(toy(prompt, 20, {{"implementation", "fast"}}).nfe, 14);
  const Toy few = toy(prompt, 20, {{"steps", 2}});
  EXPECT_EQ(cut(few, 18), (Ids{1, 2, 3, 4, 6, 7, 1, 8, 4, 0, 12, 12, 10, 6, 12, 12, 5, 1}));
  EXPECT_EQ(few.nfe, 12);
  EXPECT_EQ(toy(prompt, 20, {{"threshold", 0.0}}).nfe, 12);
  EXPECT_EQ(toy(prompt, 20, {{"confidence_stop", 0.45}}).nfe, 14);
  const Toy filled = toy({1, 2, 3, 4}, 12, {{"threshold", 0.95}});
  EXPECT_EQ(filled.ids, (Ids{1, 2, 3, 4, 9, 5, 1, 8, 5, 5, 5, 5}));
  EXPECT_EQ(filled.nfe, 5);
  EXPECT_EQ(toy({1, 2, 3, 4}, 12, {{"threshold", 0.95}, {"eos_fill", false}}).ids,
            (Ids{1, 2, 3, 4, 9, 5, 1, 8, 12, 12, 12, 12}));
  // An EOS of the prompt ends nothing, but for dllm-jax it does.
  EXPECT_EQ(toy({1, 2, 3, 4, 5, 7}, 20, Json::object()).steps, 14);
  const Toy quirk = toy({1, 2, 3, 4, 5, 7}, 20, {{"compat", "dllm-jax"}});
  EXPECT_EQ(quirk.steps, 2);
  EXPECT_EQ(quirk.ids[8], 5);
}

// The token the model decides first in a request, to be its EOS.
int32_t early_token(const std::shared_ptr<model::Model>& model, const TestRequest& request) {
  const auto decoder = make_decoder(model, spd());
  add(*decoder, request);
  decoder->run();
  return decoder->request(0).ids[request.prompt.size()];
}

TEST(Spd, AnEosEndsItsRequestAlone) {
  const auto model = tiny_model();
  const TestRequest request{{3, 1, 4}, 11, 20};
  const int32_t eos = early_token(model, request);
  const auto decoder = make_decoder(model, spd({{"eos", eos}}));
  add(*decoder, request), add(*decoder, {{eos, eos}, 1, 6});
  decoder->run();
  const Request& slot = decoder->request(0);
  EXPECT_EQ(slot.finish, Finish::stopped);
  for (size_t i = 4; i < slot.ids.size(); ++i) EXPECT_EQ(slot.ids[i], eos) << i;
  EXPECT_EQ(decoder->metric(0, "open"), 0);
  // An EOS that was given ends nothing by itself; under compat it does.
  const auto quirk = make_decoder(model, spd({{"eos", eos}, {"compat", "dllm-jax"}}));
  add(*quirk, {{eos, eos}, 1, 12});
  quirk->run();
  EXPECT_EQ(quirk->request(0).finish, Finish::stopped);
  EXPECT_LE(quirk->metric(0, "steps"), 4);
  // The tail stays open on request.
  const auto bare = make_decoder(model, spd({{"eos", eos}, {"eos_fill", false}}));
  add(*bare, request);
  bare->run();
  EXPECT_EQ(bare->metric(0, "open"), 19);
}

TEST(Spd, RefusesWhatDoesNotFit) {
  const auto model = tiny_model();
  const auto refuse = [&](const Json& more, const char* what) {
    expect_error(Code::invalid_argument, what, [&] { make_decoder(model, spd(more)); });
  };
  refuse({{"attention", "bidirectional"}}, "not bidirectional");
  refuse({{"cache", "dual"}}, "cache dual does not work with implementation kv_fast");
  refuse({{"cache", "exact"}, {"implementation", "fast"}}, "cache exact");
  refuse({{"guidance", 1.5}}, "guidance 1.5");
  refuse({{"bucket_length", 8}}, "bucket_length 8");
  refuse({{"eos", kVocab}}, "eos is 31");
  refuse({{"block_length", 0}}, "block_length");
}

} // namespace
} // namespace dllm::decode

// What is cached must not be seen in the tokens: exact caches give the bits of none.

#include "unit/cancel.h"
#include "unit/decode/requests.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

const std::vector<TestRequest> kRequests = {
    {{3, 1, 4}, 11, 9}, {{}, 5, 14}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 13}};

Json settings(const std::string& policy, const std::string& attention, int shift,
              const std::string& cache) {
  return {{"policy", policy},       {"steps", 12},    {"block_length", 4},
          {"attention", attention}, {"shift", shift}, {"cache", cache},
          {"temperature", 0.9},     {"top_p", 0.95},  {"trace", true}};
}

struct Kind {
  std::string policy, attention;
  int shift;
};

class ExactCache : public ::testing::TestWithParam<Kind> {
protected:
  std::unique_ptr<Decoder> decoder(const std::string& cache) const {
    const Kind& kind = GetParam();
    return make_decoder(model_, settings(kind.policy, kind.attention, kind.shift, cache));
  }
  std::shared_ptr<model::Model> model_ = tiny_model(2);
};

TEST_P(ExactCache, GivesTheBitsOfNone) {
  const auto cached = decoder("exact"), plain = decoder("none");
  for (const TestRequest& request : kRequests) add(*cached, request), add(*plain, request);
  cached->run(), plain->run();
  for (int64_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot)) << "slot " << slot;
    EXPECT_EQ(cached->trace(slot), plain->trace(slot));
  }
  EXPECT_GT(cached->metric(-1, "cache_bytes"), 0);
  EXPECT_EQ(plain->metric(-1, "cache_bytes"), 0);
}

TEST_P(ExactCache, SurvivesACancelledStepAndLateNeighbours) {
  const auto cached = decoder("exact"), plain = decoder("none");
  add(*cached, kRequests[0]), add(*plain, kRequests[0]);
  cached->step();
  // The same step on another decoder gives the number of checks.
  const auto other = decoder("exact");
  add(*other, kRequests[0]);
  other->step();
  const auto step_other = [&](const Task* task) { other->step(task); };
  for (const int64_t at : test::some_of(test::count_checks(step_other)))
    test::cancel_at(at, [&](const Task* task) { cached->step(task); });
  cached->step();
  add(*cached, kRequests[2]), add(*plain, kRequests[2]);
  cached->run(), plain->run();
  for (int64_t slot = 0; slot < 2; ++slot)
    EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot)) << "slot " << slot;
}

TEST_P(ExactCache, ALaterRequestKeepsTheBeginningItShares) {
  const auto cached = decoder("exact"), plain = decoder("none");
  const std::vector<int32_t> prompt = {9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2};
  add(*cached, {prompt, 1, 8});
  cached->run();
  cached->remove(0);
  std::vector<int32_t> second = prompt;
  second.back() = 4;
  add(*cached, {second, 2, 8}), add(*plain, {second, 2, 8});
  cached->run(), plain->run();
  EXPECT_EQ(answer_of(*cached), answer_of(*plain));
  // multi_block's prompt is one block that sees itself: another last token changes all of it.
  const bool one_block =
      GetParam().policy == "multi_block" && GetParam().attention == "block_causal";
  EXPECT_GE(cached->metric(-1, "reused"), one_block ? 0 : 8);
}

TEST_P(ExactCache, NewWeightsAreSeen) {
  const auto cached = decoder("exact"), plain = decoder("none"), before = decoder("none");
  add(*cached, kRequests[2]), add(*plain, kRequests[2]), add(*before, kRequests[2]);
  for (int i = 0; i < 5; ++i) cached->step(), plain->step(), before->step();
  const std::string name = "model.layers.0.self_attn.v_proj.weight";
  Tensor value = model_->params().read(name).to(DType::f32).clone();
  before->run(); // the rest of the old model
  for (float& number : value.mutable_as<float>()) number = 0.5f - 2 * number;
  model_->params().write(name, value);
  cached->run(), plain->run(); // one with K and V of the old model, one without
  EXPECT_EQ(answer_of(*cached), answer_of(*plain));
  EXPECT_NE(answer_of(*plain).confidence, answer_of(*before).confidence);
}

INSTANTIATE_TEST_SUITE_P(
    Decode, ExactCache,
    ::testing::Values(Kind{"low_confidence", "block_causal", 0},
                      Kind{"low_confidence", "block_causal", 1}, Kind{"random", "block_causal", 1},
                      Kind{"ancestral", "block_causal", 0}, Kind{"multi_block", "block_causal", 1},
                      Kind{"multi_block", "causal", 1}, Kind{"low_confidence", "causal", 1},
                      Kind{"autoregressive", "auto", 0}, Kind{"autoregressive", "causal", 1},
                      Kind{"bd3lm", "auto", 0}, Kind{"bd3lm", "auto", 1},
                      Kind{"dream", "block_causal", 1}, Kind{"llada2", "auto", 0}),
    [](const auto& info) {
      return info.param.policy + "_" + info.param.attention + "_" +
             std::to_string(info.param.shift);
    });

TEST(ApproximateCache, DecodesAndSaysWhatItIs) {
  const auto model = tiny_model();
  for (const std::string cache : {"prefix", "dual"}) {
    const auto decoder = make_decoder(model, settings("low_confidence", "bidirectional", 0, cache));
    for (const TestRequest& request : kRequests) add(*decoder, request);
    decoder->run();
    EXPECT_EQ(decoder->metric(-1, "open"), 0);
    EXPECT_NE(decoder->describe().dump().find("cache " + cache + ": K and V"), std::string::npos);
  }
}

// A pass that fails before it writes K and V leaves them as they are: they are those of an earlier canvas.
TEST(ApproximateCache, SurvivesAStepThatCouldNotBegin) {
  for (const std::string cache : {"prefix", "dual"}) {
    const auto model = tiny_model();
    const Json options = settings("low_confidence", "bidirectional", 0, cache);
    const auto whole = make_decoder(model, options), cut = make_decoder(model, options);
    add(*whole, kRequests[2]), add(*cut, kRequests[2]);
    whole->run();
    cut->step(), cut->step();
    model->engine().trim();
    model->engine().set_i64("memory_limit", model->engine().i64("memory_used") + 1);
    EXPECT_THROW(cut->step(), Error);
    model->engine().set_i64("memory_limit", 0);
    cut->run();
    EXPECT_EQ(answer_of(*cut), answer_of(*whole)) << cache;
  }
}

TEST(ApproximateCache, IsRefusedWhereAnExactOneIsPossible) {
  EXPECT_THROW(make_decoder(tiny_model(), settings("random", "causal", 0, "dual")), Error);
  EXPECT_THROW(make_decoder(tiny_model(), settings("random", "bidirectional", 0, "exact")), Error);
}

TEST(CacheDtype, RoundedCachesGiveTheBitsOfRoundedNone) {
  Json config = tiny_config();
  Options engine(graph::engine_schema());
  Options options(model::model_schema());
  options.set_str("cache_dtype", "bf16");
  const auto model = model::new_model(cpu::make_engine(engine), config, options);
  const auto cached = make_decoder(model, settings("low_confidence", "block_causal", 0, "exact"));
  const auto plain = make_decoder(model, settings("low_confidence", "block_causal", 0, "none"));
  Json device = settings("low_confidence", "block_causal", 0, "exact");
  device["loop"] = "device";
  const auto looped = make_decoder(model, device);
  for (Decoder* decoder : {cached.get(), plain.get(), looped.get()}) {
    for (const TestRequest& request : kRequests) add(*decoder, request);
    decoder->run();
  }
  for (int64_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot)) << "slot " << slot;
    EXPECT_EQ(answer_of(*looped, slot), answer_of(*plain, slot)) << "slot " << slot;
  }
}

} // namespace
} // namespace dllm::decode

// What is cached must not be seen in the tokens: exact caches give the bits of none.

#include "graph/ops.h"
#include "model/layers/state.h"
#include "unit/cancel.h"
#include "unit/decode/requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

// The prompts have one length, so that all policies have the same blocks.
TEST_P(ExactCache, RequestsThatComeTogetherComputeTheirBeginningOnce) {
  const auto cached = decoder("exact"), plain = decoder("none");
  std::vector<int32_t> prompt(40);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * i % 29);
  for (int32_t i = 0; i < 4; ++i) {
    prompt.back() = i;
    add(*cached, {prompt, i, 8}), add(*plain, {prompt, i, 8});
  }
  cached->run(), plain->run();
  for (int64_t slot = 0; slot < 4; ++slot)
    EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot)) << "slot " << slot;
  const bool one_block =
      GetParam().policy == "multi_block" && GetParam().attention == "block_causal";
  EXPECT_GE(cached->metric(-1, "reused"), one_block ? 0 : 3 * 32);
  EXPECT_LT(cached->metric(-1, "computed"), plain->metric(-1, "computed"));
}

TEST_P(ExactCache, RequestsTakeWhatRunningOnesHave) {
  for (const size_t group : {1, 3, 8}) {
    const auto cached = decoder("exact"), plain = decoder("none");
    const std::vector<TestRequest> requests = prompt_tree(7, 10);
    for (Decoder* each : {cached.get(), plain.get()}) run_in_groups(*each, requests, group);
    for (int64_t slot = 0; slot < std::ssize(requests); ++slot)
      EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot)) << "slot " << slot;
    if (GetParam().attention == "causal") EXPECT_GE(cached->metric(-1, "reused"), 64) << group;
  }
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

// A pass that fails before it writes K and V leaves them as they are: they are those of an earlier
// canvas.
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

std::shared_ptr<model::Model> model_with_cache(const std::string& dtype) {
  Options options(model::model_schema());
  options.set_str("cache_dtype", dtype);
  return model::new_model(cpu::make_engine(Options(graph::engine_schema())), tiny_config(),
                          options);
}

class CacheDtype : public ::testing::TestWithParam<std::string> {};

TEST_P(CacheDtype, RoundedCachesGiveTheBitsOfRoundedNone) {
  const auto model = model_with_cache(GetParam());
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

TEST_P(CacheDtype, CopiedBeginningsAreTheBitsOfComputedOnes) {
  const auto model = model_with_cache(GetParam());
  const auto cached = make_decoder(model, settings("autoregressive", "auto", 1, "exact"));
  const auto plain = make_decoder(model, settings("autoregressive", "auto", 1, "none"));
  const std::vector<TestRequest> requests = prompt_tree(3, 8);
  for (Decoder* each : {cached.get(), plain.get()}) run_in_groups(*each, requests, 2);
  for (int64_t slot = 0; slot < std::ssize(requests); ++slot)
    EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot)) << "slot " << slot;
  EXPECT_GE(cached->metric(-1, "reused"), 64);
}

// Of a model with large weights: K and V are off by up to 2^-9 of a number, or 1/254 of a head's
// largest.
TEST_P(CacheDtype, ProbabilitiesStayNearThoseOfF32) {
  const auto rounded = make_decoder(model_with_cache(GetParam()), {{"steps", 4}}),
             exact = make_decoder(model_with_cache("f32"), {{"steps", 4}});
  double difference = 0;
  for (Decoder* decoder : {rounded.get(), exact.get()}) {
    add(*decoder, kRequests[2]);
    decoder->predict();
  }
  const Batch a = rounded->statistics(0), b = exact->statistics(0);
  const auto p = a.at("max_probability").as<float>(), q = b.at("max_probability").as<float>();
  ASSERT_EQ(p.size(), q.size());
  for (size_t i = 0; i < p.size(); ++i)
    difference = std::max(difference, std::abs(static_cast<double>(p[i] - q[i])));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Decode, CacheDtype, ::testing::Values("bf16", "int8"),
                         [](const auto& info) { return info.param; });

TEST(CacheDtype, Int8IsWithinHalfAStepAndAQuarterOfTheBytes) {
  const auto graph = std::make_shared<graph::Graph>("round");
  const int64_t heads = 3, dim = 8, count = 2 * 5;
  const graph::Value x = graph->input("x", DType::f32, {2, 5, heads, dim});
  model::LayerState::Entry entry;
  entry.slot = {"keys", model::StateKind::positional, {heads, dim}, DType::i8};
  model::LayerState state({entry}, {}, {}, true);
  graph->output("y", state.keep("keys", x));
  std::vector<float> numbers;
  for (int64_t i = 0; i < count * heads * dim; ++i) {
    const bool zeros = i / dim == 4; // a head of zeros stays one
    numbers.push_back(zeros ? 0.0f
                            : std::sin(static_cast<float>(i * i)) * static_cast<float>(i % 7));
  }
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  const auto program = engine->compile(graph);
  const std::vector<graph::BufferRef> inputs = {
      engine->upload(Tensor::from(Shape{2, 5, heads, dim}, numbers))};
  const Tensor made = program->run(inputs)[0]->read();
  for (int64_t head = 0; head < count * heads; ++head) {
    const auto first = static_cast<size_t>(head * dim);
    float largest = 0;
    for (size_t i = first; i < first + dim; ++i) largest = std::max(largest, std::abs(numbers[i]));
    for (size_t i = first; i < first + dim; ++i)
      EXPECT_LE(std::abs(made.as<float>()[i] - numbers[i]), largest / 253.9f) << i;
  }
  const auto bytes = [](const std::string& dtype) {
    int64_t sum = 0;
    for (const model::StateStack& stack : model::state_stacks(model_with_cache(dtype)->config()))
      sum += stack.bytes({1, 64});
    return sum;
  };
  const int64_t head_dim = 6, scale = 4; // of tiny_config
  EXPECT_EQ(bytes("int8") * 4 * head_dim, bytes("f32") * (head_dim + scale));
}

} // namespace
} // namespace dllm::decode

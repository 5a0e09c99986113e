// llada_sft, bd3lm, dream, dmax, open_dllm and uniform: what they corrupt and count, and their
// losses.
#include "base/error.h"
#include "noise/loss/token_ce.h"
#include "noise/objective.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace dllm::noise {
namespace {

const char* const kNames[] = {"mdlm", "llada_sft", "bd3lm",  "dream",
                              "dmax", "open_dllm", "uniform"};

Json settings_of(const std::string& name) {
  if (name == "open_dllm") return {{"anti_repetition", 0.3}, {"min_snr_gamma", 5.0}};
  const bool blocks = name == "bd3lm" || name == "dmax";
  return blocks ? Json{{"block_length", 4}} : Json::object();
}

Batch prepared_by(const Objective& objective, const Batch& raw, const model::Model& model) {
  return objective.prepare(raw, 3, 1, prepare_context(objective, model.config()));
}

TEST(Objectives, GradientsAreThoseOfTheLoss) {
  const auto model = tiny_model();
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    // A part of this loss stops its gradient on purpose; parity compares it (castlehill/mdm_loss).
    if (std::string(name) == "open_dllm") continue;
    Json settings = settings_of(name);
    // The tokens that a rollout replaces may change with the weights: no gradient there.
    if (std::string(name) == "dmax") settings["on_policy"] = 0.0;
    if (std::string(name) != "dmax" && std::string(name) != "uniform")
      settings["min_mask_ratio"] = 0.5;
    const ObjectiveRef objective = tiny_objective(name, settings);
    LossRunner runner(model, objective);
    Batch raw = tiny_rows(2, 8);
    raw.set("u_t", Tensor::from(Shape{2, name == std::string("bd3lm") ? 2 : 1},
                                std::vector<float>(name == std::string("bd3lm") ? 4 : 2, 0.6f)));
    expect_gradient(*model, runner, *objective, prepared_by(*objective, raw, *model));
  }
}

// The loss of one batch is that of its parts: sums and normalizers add up, times and masks are the
// same.
TEST(Objectives, MicroBatchesMakeOneBatch) {
  const auto model = tiny_model();
  for (const char* name : kNames) {
    for (const char* sampling : {"uniform", "low_discrepancy", "importance"}) {
      SCOPED_TRACE(std::string(name) + " " + sampling);
      Json settings = settings_of(name);
      if (std::string(name) == "dmax") {
        if (std::string(sampling) != "uniform") continue;
      } else {
        settings["time_sampling"] = sampling;
      }
      const ObjectiveRef objective = tiny_objective(name, settings);
      LossRunner runner(model, objective);
      const LossValue whole = runner.run(tiny_rows(4, 8, 0, 4), 3, 1, nullptr);
      const LossValue first = runner.run(tiny_rows(1, 8, 0, 4), 3, 1, nullptr);
      const LossValue rest = runner.run(tiny_rows(3, 8, 1, 4), 3, 1, nullptr);
      EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-4 * std::abs(whole.sum) + 1e-5);
      EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
    }
  }
}

// Two complementary rows come from one row of the batch, whose number is that of the update.
TEST(Objectives, MicroBatchesOfDoubledRowsMakeOneBatch) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective(
      "bd3lm", {{"block_length", 4}, {"complementary", true}, {"loss_weight", "ones"}});
  LossRunner runner(model, objective);
  const LossValue whole = runner.run(tiny_rows(4, 8, 0, 4), 3, 1, nullptr);
  const LossValue first = runner.run(tiny_rows(1, 8, 0, 4), 3, 1, nullptr);
  const LossValue rest = runner.run(tiny_rows(3, 8, 1, 4), 3, 1, nullptr);
  EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-4 * std::abs(whole.sum));
  EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
}

// Rows one by one give what they give together, and how sure the mean is.
TEST(Objectives, RowLossesAddUp) {
  const auto model = tiny_model();
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    const ObjectiveRef objective = tiny_objective(name, settings_of(name));
    LossRunner runner(model, objective);
    const LossValue whole = runner.run(tiny_rows(4, 8), 3, 1, nullptr);
    const RowLosses rows = runner.run_rows(tiny_rows(4, 8), 3, 1, nullptr);
    ASSERT_EQ(rows.sums.size(), 4u);
    EXPECT_NEAR(rows.mean(), whole.mean(), 1e-4 * std::abs(whole.mean()) + 1e-6);
    EXPECT_GT(rows.standard_error(), 0);
    EXPECT_NEAR(rows.perplexity(), std::exp(rows.mean()), 1e-9);
    EXPECT_NEAR(rows.bits_per_byte(16), whole.sum / 16 / std::log(2), 1e-3 * std::abs(whole.sum));
  }
  EXPECT_EQ((RowLosses{{3}, {0}}.mean()), 0);
  EXPECT_NEAR((RowLosses{{1, 3}, {1, 1}}.standard_error()), 1, 1e-12);
}

TEST(Bd3lm, ComplementaryRowsTrainEveryToken) {
  const auto model = tiny_model();
  const Json settings = {{"block_length", 4}, {"complementary", true}, {"loss_weight", "ones"}};
  Batch raw = tiny_rows(2, 8);
  raw.set("keep", Tensor::from(Shape{2, 8}, std::vector<uint8_t>{1, 1, 0, 0, 0, 0, 0, 0, //
                                                                 0, 0, 0, 0, 0, 0, 0, 0}));
  const ObjectiveRef objective = tiny_objective("bd3lm", settings);
  const Batch prepared = prepared_by(*objective, raw, *model);
  ASSERT_EQ(prepared.at("ids").shape(), (Shape{4, 16}));
  for (int64_t b = 0; b < 2; ++b) {
    const Tensor ids = prepared.at("ids").row(b), other = prepared.at("ids").row(b + 2);
    for (size_t i = 0; i < 8; ++i) {
      const bool given = b == 0 && i < 2;
      const int masked =
          (ids.as<int32_t>()[i] == kTinyMask) + (other.as<int32_t>()[i] == kTinyMask);
      EXPECT_EQ(masked, given ? 0 : 1) << b << ' ' << i;
      EXPECT_EQ(ids.as<int32_t>()[8 + i], other.as<int32_t>()[8 + i]); // the clean half
    }
  }
  double counted = 0, weights = 0;
  for (const float count : prepared.at("normalizer").as<float>()) counted += count;
  for (const float weight : prepared.at("weights").as<float>()) weights += weight;
  EXPECT_EQ(counted, 14);
  EXPECT_EQ(weights, 14); // each token once
  LossRunner runner(model, objective);
  EXPECT_TRUE(std::isfinite(runner.run(prepared, 0, 0, nullptr).mean()));
  PrepareContext held_out = prepare_context(*objective, model->config());
  held_out.held_out = true;
  EXPECT_EQ(objective->prepare(raw, 3, 1, held_out).at("ids").shape()[0], 2);
  EXPECT_THROW(tiny_objective("bd3lm", {{"complementary", true}}), Error);
}

TEST(LladaSft, EachAnswerCountsOnce) {
  const ObjectiveRef objective = tiny_objective("llada_sft", {{"min_mask_ratio", 1.0}});
  Batch raw = tiny_rows(3, 6);
  raw.set("keep", Tensor::from(Shape{3, 6}, std::vector<uint8_t>{1, 1, 0, 0, 0, 0, //
                                                                 1, 1, 1, 1, 1, 0, //
                                                                 1, 1, 1, 1, 1, 1}));
  PrepareContext context;
  context.vocab = 23;
  context.mask_id = kTinyMask;
  const Batch prepared = objective->prepare(raw, 1, 0, context);
  const auto weights = prepared.at("weights").as<float>();
  const auto times = prepared.at("t").as<float>();
  EXPECT_NEAR(weights[2], 1 / times[0] / 4, 1e-3);
  EXPECT_NEAR(weights[11], 1 / times[1], 1e-2);
  EXPECT_EQ(weights[0], 0);
  EXPECT_EQ(prepared.at("ids").as<int32_t>()[0], raw.at("ids").as<int32_t>()[0]);
  const auto normalizer = prepared.at("normalizer").as<float>();
  EXPECT_EQ(std::vector<float>(normalizer.begin(), normalizer.end()),
            (std::vector<float>{1, 1, 0})); // a row without an answer does not count
}

TEST(LladaSft, PaddingMayBePartOfTheAnswer) {
  const auto trained = [](bool padding) {
    const ObjectiveRef objective =
        tiny_objective("llada_sft", {{"min_mask_ratio", 1.0}, {"answer_padding", padding}});
    Batch raw = tiny_rows(1, 6);
    raw.set("segments", Tensor::from(Shape{1, 6}, std::vector<int32_t>{1, 1, 1, 1, 0, 0}));
    raw.set("keep", Tensor::from(Shape{1, 6}, std::vector<uint8_t>{1, 1, 0, 0, 1, 1}));
    PrepareContext context;
    context.vocab = 23;
    context.mask_id = kTinyMask;
    return std::ranges::count_if(objective->prepare(raw, 1, 0, context).at("targets").as<int32_t>(),
                                 [](int32_t target) { return target >= 0; });
  };
  EXPECT_EQ(trained(false), 2);
  EXPECT_EQ(trained(true), 4);
}

// The share of padding among the targets is part of the loss, of one stream and of two.
TEST(TrainedPadding, ItsTargetsAreCounted) {
  const auto model = tiny_model();
  for (const auto& [name, options] :
       {std::pair<const char*, Json>{"llada_sft",
                                     {{"min_mask_ratio", 1.0}, {"answer_padding", true}}},
        {"dmax", {{"block_length", 4}, {"tail_labels", 3}}}}) {
    SCOPED_TRACE(name);
    const ObjectiveRef objective = tiny_objective(name, options);
    Batch raw;
    raw.set("ids", Tensor::from(Shape{2, 8}, std::vector<int32_t>{1, 2, 3, 9, 9, 9, 9, 9, //
                                                                  1, 2, 3, 4, 5, 6, 7, 9}));
    raw.set("segments", Tensor::from(Shape{2, 8}, std::vector<int32_t>{1, 1, 1, 1, 0, 0, 0, 0, //
                                                                       1, 1, 1, 1, 1, 1, 1, 0}));
    const Batch prepared = prepared_by(*objective, raw, *model);
    const Batch feed = objective->feed(prepared, model->config());
    // dmax trains three of each tail, the first of which ends the text of row 0.
    EXPECT_EQ(feed.at("padding_count").as<float>()[0], name == std::string("dmax") ? 3 : 5);
    EXPECT_EQ(feed.at("head_count").as<int32_t>()[0], name == std::string("dmax") ? 14 : 16);
    Batch without = raw;
    without.set("segments", Tensor::from(Shape{2, 8}, std::vector<int32_t>(16, 1)));
    const Batch other = objective->feed(prepared_by(*objective, without, *model), model->config());
    EXPECT_EQ(other.at("padding_count").as<float>()[0], 0);
    // A caller's own array is not believed.
    for (const Shape& shape : {Shape{2, 1000}, Shape{3, 8}, Shape{16}, Shape{}, Shape{2, 8, 1}}) {
      Batch wrong = prepared;
      wrong.set("trained_padding", Tensor(DType::u8, shape));
      test::expect_error(Code::invalid_argument, "trained_padding",
                         [&] { objective->feed(wrong, model->config()); });
    }
  }
}

// An array of the prepared rows that a caller may give as well.
TEST(Objective, BlockLengthOfABatchIsOneNumber) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("bd3lm", {{"block_length", 4}});
  Batch prepared = prepared_by(*objective, tiny_rows(1, 8), *model);
  for (const Shape& shape : {Shape{0}, Shape{2}}) {
    prepared.set("block_length", Tensor(DType::i32, shape));
    test::expect_error(Code::invalid_argument, "block_length",
                       [&] { objective->feed(prepared, model->config()); });
  }
}

// One pass over [noised | clean] gives the loss of the blocks, each run alone behind its clean
// beginning.
TEST(Bd3lm, EqualsBlocksThatRunOneByOne) {
  const auto model = tiny_model();
  for (const int64_t shift : {0, 1}) {
    const int64_t block = 4, seq = 10;
    const ObjectiveRef objective =
        tiny_objective("bd3lm", {{"block_length", block}, {"shift", shift}});
    const Batch raw = tiny_rows(1, seq), prepared = prepared_by(*objective, raw, *model);
    ASSERT_EQ(prepared.at("ids").shape(), (Shape{1, 2 * seq}));
    EXPECT_EQ(prepared.at("t").count(), 3);
    const double together = LossRunner(model, objective).run(prepared, 0, 0, nullptr).sum;
    const ObjectiveRef alone = tiny_objective(
        "token_ce", {{"attention", "block_causal"}, {"block_length", block}, {"shift", shift}});
    LossRunner runner(model, alone);
    double sum = 0;
    for (int64_t begin = 0; begin < seq; begin += block) {
      const int64_t end = std::min(begin + block, seq);
      Tensor ids(DType::i32, {1, end}), targets(DType::i32, {1, end}),
          weights(DType::f32, {1, end});
      for (int64_t i = 0; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        const bool own = i >= begin;
        ids.mutable_as<int32_t>()[at] =
            own ? prepared.at("ids").as<int32_t>()[at] : raw.at("ids").as<int32_t>()[at];
        targets.mutable_as<int32_t>()[at] = own ? prepared.at("targets").as<int32_t>()[at] : -1;
        weights.mutable_as<float>()[at] = own ? prepared.at("weights").as<float>()[at] : 0.0f;
      }
      Batch one;
      one.set("ids", ids);
      one.set("targets", targets);
      one.set("weights", weights);
      sum += runner.run(one, 0, 0, nullptr).sum;
    }
    EXPECT_NEAR(together, sum, 1e-4 * sum) << "shift " << shift;
  }
}

// The clean half is causal then, so it adds the loss of an autoregressive model, and a held-out
// loss has none of it.
TEST(Bd3lm, TrainsTheCleanHalfAsAnAutoregressiveModel) {
  const auto model = tiny_model();
  for (const int64_t shift : {0, 1}) {
    SCOPED_TRACE(shift);
    const Json settings = {{"block_length", 4}, {"shift", shift}, {"ar_weight", 0.5}};
    const ObjectiveRef objective = tiny_objective("bd3lm", settings);
    Batch raw = tiny_rows(2, 10);
    raw.set("segments",
            Tensor::from(Shape{2, 10}, std::vector<int32_t>{1, 1, 1, 1, 1, 2, 2, 2, 0, 0,
                                                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
    PrepareContext context = prepare_context(*objective, model->config());
    const auto sum_of = [&](const Objective& of, const Batch& prepared) {
      return loss_gradients(*model, of, prepared).loss.sum;
    };
    const double both = sum_of(*objective, objective->prepare(raw, 3, 1, context));
    context.held_out = true;
    const double blocks = sum_of(*objective, objective->prepare(raw, 3, 1, context));
    const ObjectiveRef ar = tiny_objective("ar");
    const double next = sum_of(*ar, ar->prepare(raw, 3, 1, prepare_context(*ar, model->config())));
    EXPECT_GT(next, 1);
    EXPECT_NEAR(both, blocks + 0.5 * next, 1e-4 * both);
  }
}

TEST(Bd3lm, NeedsABlockLength) {
  const auto model = tiny_model();
  EXPECT_THROW(prepared_by(*tiny_objective("bd3lm"), tiny_rows(1, 8), *model), Error);
  EXPECT_THROW(prepared_by(*tiny_objective("dmax"), tiny_rows(1, 8), *model), Error);
}

// A step in the middle of block_steps is a step with that block_length.
TEST(BlockSteps, ChooseTheBlocksOfAStep) {
  const auto model = tiny_model();
  for (const char* name : {"bd3lm", "dmax"}) {
    SCOPED_TRACE(name);
    const ObjectiveRef growing = tiny_objective(
        name, {{"block_length", 8}, {"block_steps", Json::array({"0:2", "10:4", "20:8"})}});
    for (const auto& [step, length] : {std::pair{0, 2}, {9, 2}, {10, 4}, {25, 8}}) {
      const ObjectiveRef fixed = tiny_objective(name, {{"block_length", length}});
      const auto loss_of = [&, at = step](const ObjectiveRef& objective) {
        const PrepareContext context = prepare_context(*objective, model->config());
        const Batch prepared = objective->prepare(tiny_rows(2, 16), 3, at, context);
        return LossRunner(model, objective).run(prepared, 0, 0, nullptr).sum;
      };
      EXPECT_EQ(loss_of(growing), loss_of(fixed)) << step;
    }
    // A held-out loss has the last blocks.
    const ObjectiveRef last = tiny_objective(name, {{"block_length", 8}});
    EXPECT_EQ(LossRunner(model, growing).run(tiny_rows(2, 16), 3, 0, nullptr).sum,
              LossRunner(model, last).run(tiny_rows(2, 16), 3, 0, nullptr).sum);
  }
  for (const char* wrong : {"4", "0:", ":4", "0:0", "-1:4", "0:4x"}) {
    EXPECT_THROW(tiny_objective("bd3lm", {{"block_steps", Json::array({wrong})}}), Error) << wrong;
  }
  EXPECT_THROW(tiny_objective("bd3lm", {{"block_steps", Json::array({"5:4", "5:8"})}}), Error);
}

TEST(Dream, WeighsByContextInsideOfASegment) {
  const ObjectiveRef objective = tiny_objective("dream", {{"geo_p", 0.5}});
  PrepareContext context;
  context.mask_id = kTinyMask;
  context.shift = 1;
  Batch raw = tiny_rows(1, 6);
  raw.set("segments", Tensor::from(Shape{1, 6}, std::vector<int32_t>{1, 1, 1, 2, 2, 0}));
  raw.set("u_mask", Tensor::from(Shape{1, 6}, std::vector<float>{1, 1, 0, 0, 0, 1}));
  const Batch prepared = objective->prepare(raw, 0, 0, context);
  const auto weights = prepared.at("weights").as<float>();
  EXPECT_NEAR(weights[2], 0.5 * 0.5 + 0.5 * 0.5 * 0.5, 1e-6); // tokens 1 and 0
  EXPECT_EQ(weights[3], 0);                                   // the first token of a text is given
  EXPECT_NEAR(weights[4], 0.5 * 0.5, 1e-6);                   // token 3
}

TEST(Dmax, TheModelReplacesMaskedTokensOfFlaggedRows) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("dmax", {{"block_length", 4}});
  Batch raw = tiny_rows(2, 8);
  raw.set("flag", Tensor::from(Shape{2}, std::vector<uint8_t>{1, 0}));
  const Batch prepared = prepared_by(*objective, raw, *model);
  // What the loss does inside, by hand: predictions of the noised half take the places of its
  // masks.
  Batch input;
  for (const char* name : {"ids", "positions"}) input.set(name, prepared.at(name));
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", "two_stream"}, {"block_length", 4}, {"shift", 0}});
  const Tensor logits = model::forward(*model, input, options).at("logits");
  Tensor ids = prepared.at("ids").clone();
  int64_t replaced = 0;
  for (int64_t i = 0; i < 8; ++i) {
    const auto row = logits.as<float>().subspan(static_cast<size_t>(i * 23), 22); // not the mask
    if (ids.as<int32_t>()[static_cast<size_t>(i)] != kTinyMask) continue;
    ids.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
    ++replaced;
  }
  ASSERT_GT(replaced, 0);
  Batch by_hand = prepared;
  by_hand.set("ids", ids);
  by_hand.set("rollout", Tensor(DType::u8, {2, 16}));
  LossRunner runner(model, objective);
  EXPECT_NEAR(runner.run(prepared, 0, 0, nullptr).mean(), runner.run(by_hand, 0, 0, nullptr).mean(),
              1e-5);
  for (const float count : prepared.at("normalizer").as<float>()) EXPECT_EQ(count, 8);
}

TEST(Uniform, NoiseIsAnyTokenButTheMask) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("uniform");
  Batch raw = tiny_rows(8, 200);
  raw.set("u_t", Tensor::from(Shape{8}, std::vector<float>(8, 0.5f)));
  const Batch prepared = prepared_by(*objective, raw, *model);
  std::set<int32_t> seen;
  int64_t changed = 0;
  for (size_t i = 0; i < 1600; ++i) {
    const int32_t token = prepared.at("ids").as<int32_t>()[i];
    seen.insert(token);
    changed += token != raw.at("ids").as<int32_t>()[i] ? 1 : 0;
    EXPECT_GE(prepared.at("targets").as<int32_t>()[i], 0);
  }
  EXPECT_EQ(seen.size(), 22u);
  EXPECT_EQ(seen.count(kTinyMask), 0u);
  const double expected = 0.5 * 21 / 22; // 4 standard errors of a binomial
  EXPECT_NEAR(static_cast<double>(changed) / 1600, expected, 4 * 0.5 / 40);
}

TEST(Times, ImportanceKeepsTheMeanAndTheBounds) {
  const ObjectiveRef plain = tiny_objective("mdlm"),
                     often = tiny_objective("mdlm", {{"time_sampling", "importance"}});
  PrepareContext context;
  context.vocab = 23;
  context.mask_id = kTinyMask;
  const auto mean_weight = [&](const Objective& objective) {
    double sum = 0;
    const Batch prepared = objective.prepare(tiny_rows(2000, 8), 5, 0, context);
    for (const float weight : prepared.at("weights").as<float>()) sum += weight;
    for (const float t : prepared.at("t").as<float>()) EXPECT_TRUE(t >= 1e-3f && t <= 1.0f) << t;
    return sum / 16000; // E of 1/t times the chance t of a mask: 1
  };
  EXPECT_NEAR(mean_weight(*plain), 1, 0.15);
  EXPECT_NEAR(mean_weight(*often), 1, 0.15);
}

// By hand, where every token is masked: CE (1 + p) and the chance of equal neighbours, up to min(1
// / ratio, gamma).
TEST(OpenDllm, CountsFoundTokensMore) {
  const auto model = tiny_model();
  const Batch raw = tiny_rows(1, 8);
  const auto loss_of = [&](double anti, double gamma) {
    const ObjectiveRef objective = tiny_objective("open_dllm", {{"min_mask_ratio", 0.8},
                                                                {"max_mask_ratio", 0.8},
                                                                {"anti_repetition", anti},
                                                                {"min_snr_gamma", gamma}});
    Batch all = raw;
    all.set("u_mask", Tensor(DType::f32, {1, 8}));
    return LossRunner(model, objective).run(prepared_by(*objective, all, *model), 0, 0, nullptr);
  };
  Batch input;
  Tensor masked(DType::i32, {1, 8});
  std::ranges::fill(masked.mutable_as<int32_t>(), kTinyMask);
  input.set("ids", masked);
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  const Tensor logits = model::forward(*model, input, options).at("logits");
  std::vector<std::vector<double>> p;
  double want = 0, same = 0, pairs = 0;
  for (size_t i = 0; i < 8; ++i) {
    const auto row = logits.as<float>().subspan(i * 23, 23);
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x));
    p.emplace_back();
    for (const float x : row) p.back().push_back(std::exp(static_cast<double>(x)) / sum);
    const double found = p.back()[static_cast<size_t>(raw.at("ids").as<int32_t>()[i])];
    want -= std::log(found) * (1 + found) / 8;
    if (i == 0) continue;
    ++pairs; // neighbours of tiny_rows differ
    for (size_t k = 0; k < 23; ++k) same += p[i][k] * p[i - 1][k];
  }
  EXPECT_NEAR(loss_of(0, 0).mean(), want, 1e-4 * want);
  EXPECT_NEAR(loss_of(0.5, 0).mean(), want + 0.5 * same / pairs, 1e-4 * want);
  EXPECT_NEAR(loss_of(0.5, 4).mean(), 1.25 * (want + 0.5 * same / pairs), 1e-4 * want);
}

TEST(OpenDllm, MaskRatiosOpen) {
  const ObjectiveRef objective = tiny_objective("open_dllm", {{"curriculum", 100}});
  PrepareContext context;
  context.mask_id = kTinyMask;
  Batch raw = tiny_rows(2, 4);
  raw.set("t", Tensor::from(Shape{2}, std::vector<float>{0.0f, 1.0f}));
  const auto expect_ratios = [&](int64_t step, float low, float high) {
    const Tensor ratios = objective->prepare(raw, 0, step, context).at("mask_ratio");
    EXPECT_NEAR(ratios.as<float>()[0], low, 1e-6) << step;
    EXPECT_NEAR(ratios.as<float>()[1], high, 1e-6) << step;
  };
  expect_ratios(0, 0.15f, 0.85f);
  expect_ratios(50, 0.076f, 0.924f);
  expect_ratios(100, 0.002f, 0.998f);
}

// Of the run of equal tokens behind the text the first two are trained.
TEST(DMax, TheTailIsTrainedInPart) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("dmax", {{"block_length", 4}, {"tail_labels", 2}});
  Batch raw;
  raw.set("ids", Tensor::from(Shape{2, 8}, std::vector<int32_t>{1, 2, 3, 9, 9, 9, 9, 9, //
                                                                1, 2, 3, 4, 5, 6, 7, 9}));
  const Batch made = prepared_by(*objective, raw, *model);
  const auto targets = made.at("targets").as<int32_t>(); // (2, 16): the noised half first
  EXPECT_EQ(std::vector<int32_t>(targets.begin(), targets.begin() + 8),
            (std::vector<int32_t>{1, 2, 3, 9, 9, -1, -1, -1}));
  EXPECT_EQ(std::vector<int32_t>(targets.begin() + 16, targets.begin() + 24),
            (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 9}));
}

// Without a row on policy the program has no first pass; flags of the batch bring it back.
TEST(DMax, NoRolloutWithoutARowOnPolicy) {
  const auto model = tiny_model();
  const ObjectiveRef objective = tiny_objective("dmax", {{"block_length", 4}, {"on_policy", 0.0}});
  Batch raw = tiny_rows(2, 8);
  EXPECT_FALSE(
      objective->feed(prepared_by(*objective, raw, *model), model->config()).has("rollout_at"));
  raw.set("flag", Tensor::from(Shape{2}, std::vector<float>{1.0f, 0.0f}));
  EXPECT_TRUE(
      objective->feed(prepared_by(*objective, raw, *model), model->config()).has("rollout_at"));
}

} // namespace
} // namespace dllm::noise

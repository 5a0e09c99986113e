#include "noise/loss/token_ce.h"

#include "base/error.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "noise/loss/evaluate.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace dllm::noise {
namespace {

std::shared_ptr<model::Model> tiny_model() {
  const Json config = {{"model_type", "qwen3"},
                       {"vocab_size", 23},
                       {"hidden_size", 16},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"head_dim", 4},
                       {"intermediate_size", 20},
                       {"max_position_embeddings", 64},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 10000.0},
                       {"tie_word_embeddings", true},
                       {"initializer_range", 0.4},
                       {"mask_token_id", 22}};
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  return model::new_model(engine, config, Options(model::model_schema()));
}

Batch prepared_batch() {
  Batch batch;
  batch.set("ids",
            Tensor::from(Shape{2, 5}, std::vector<int32_t>{1, 22, 3, 22, 5, 22, 7, 8, 22, 10}));
  batch.set("targets",
            Tensor::from(Shape{2, 5}, std::vector<int32_t>{-1, 2, -1, 4, -1, 6, -1, -1, 9, -1}));
  batch.set("weights",
            Tensor::from(Shape{2, 5}, std::vector<float>{0, 2, 0, 2, 0, .5f, 0, 0, .5f, 0}));
  batch.set("normalizer", Tensor::from(Shape{2}, std::vector<float>{5, 5}));
  return batch;
}

ObjectiveRef token_ce(int64_t shift = 0) {
  Options options(objective_schema("token_ce"));
  options.set_str("attention", "bidirectional");
  options.set_i64("shift", shift);
  return make_objective("token_ce", nullptr, options);
}

// The loss from whole logits, by its formula.
double by_hand(model::Model& model, const Batch& batch, int64_t shift) {
  Batch input;
  input.set("ids", batch.at("ids"));
  Options options(model::forward_schema());
  options.set_str("attention", "bidirectional");
  options.set_i64("shift", 0);
  const Tensor logits = model::forward(model, input, options).at("logits");
  const int64_t vocab = logits.shape()[2];
  double sum = 0;
  for (int64_t i = 0; i < 10; ++i) {
    const int32_t target = batch.at("targets").as<int32_t>()[static_cast<size_t>(i)];
    if (target < 0) continue;
    const auto row = logits.as<float>().subspan(static_cast<size_t>((i - shift) * vocab),
                                                static_cast<size_t>(vocab));
    double total = 0;
    for (const float logit : row) total += std::exp(static_cast<double>(logit));
    sum += batch.at("weights").as<float>()[static_cast<size_t>(i)] *
           (std::log(total) - row[static_cast<size_t>(target)]);
  }
  return sum / 10;
}

TEST(TokenCe, EqualsTheFormulaOverWholeLogits) {
  const auto model = tiny_model();
  EXPECT_NEAR(LossRunner(model, token_ce()).run(prepared_batch(), 0, 0, nullptr).mean(),
              by_hand(*model, prepared_batch(), 0), 1e-5);
}

TEST(TokenCe, ShiftReadsTheHiddenStateBefore) {
  const auto model = tiny_model();
  Batch batch = prepared_batch();
  batch.set("targets",
            Tensor::from(Shape{2, 5}, std::vector<int32_t>{-1, 2, -1, 4, -1, -1, 6, -1, 9, -1}));
  batch.set("weights",
            Tensor::from(Shape{2, 5}, std::vector<float>{0, 2, 0, 2, 0, 0, .5f, 0, .5f, 0}));
  EXPECT_NEAR(LossRunner(model, token_ce(1)).run(batch, 0, 0, nullptr).mean(),
              by_hand(*model, batch, 1), 1e-5);
}

TEST(TokenCe, TargetWithNothingBeforeItIsAnError) {
  model::TokenRules rules;
  rules.use = model::TokenUse::loss;
  const model::TokenBatch rows = model::parse_tokens(prepared_batch(), rules);
  TokenCeSettings settings;
  settings.shift = 1;
  try {
    token_ce_feed(rows, settings);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("targets[1, 0]"), std::string::npos) << error.text();
  }
  settings.first_predicts_itself = true;
  EXPECT_EQ(token_ce_feed(rows, settings).at(kHeadCount).as<int32_t>()[0], 4);
}

// A prepared batch is checked wherever it comes from: the loss and the trainer read the same feed.
TEST(TokenCe, PreparedNumbersOutsideTheirBoundsAreErrors) {
  const auto model = tiny_model();
  LossRunner runner(model, token_ce());
  const auto refuses = [&](const char* text, const char* name, const Tensor& array) {
    Batch batch = prepared_batch();
    batch.set(name, array);
    try {
      runner.run(batch, 0, 0, nullptr);
      FAIL() << "no error: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(error.text().find(text), std::string::npos) << error.text();
    }
  };
  const auto changed = [](const char* name, size_t at, auto value) {
    Tensor array = prepared_batch().at(name).clone();
    array.mutable_as<decltype(value)>()[at] = value;
    return array;
  };
  const auto rows = [](auto value) {
    std::vector<decltype(value)> values(10, decltype(value){1});
    values[7] = value;
    return Tensor::from(Shape{2, 5}, values);
  };
  refuses("ids[1, 2] = 23 is not in 0 to 22", "ids", changed("ids", 7, int32_t{23}));
  refuses("ids[0, 0] = -5 is not in 0 to 22", "ids", changed("ids", 0, int32_t{-5}));
  refuses("targets[0, 1] = 99 is not in -1 to 22", "targets", changed("targets", 1, int32_t{99}));
  refuses("targets[0, 4] = -2 is not in -1 to 22", "targets", changed("targets", 4, int32_t{-2}));
  refuses("weights[0, 3] = nan is not finite", "weights", changed("weights", 3, std::nanf("")));
  refuses("normalizer[1] = inf is not finite", "normalizer",
          changed("normalizer", 1, std::numeric_limits<float>::infinity()));
  refuses("positions[1, 2] = 64 is not in 0 to 63", "positions", rows(int32_t{64}));
  refuses("segments[1, 2] = -3 is not in 0 to", "segments", rows(int32_t{-3}));
  refuses("keys[1, 2] = 7 is not in 0 to 1", "keys", rows(uint8_t{7}));
  std::vector<uint8_t> mask(50, 1);
  mask[31] = 9;
  refuses("mask[1, 1, 1] = 9 is not in 0 to 1", "mask", Tensor::from(Shape{2, 5, 5}, mask));
  refuses("array ids is f32(2, 5), expected i32(2, 5)", "ids", Tensor(DType::f32, {2, 5}));

  Batch wide;
  wide.set("ids", Tensor(DType::i32, {1, 65}));
  wide.set("targets", Tensor(DType::i32, {1, 65}));
  wide.set("weights", Tensor(DType::f32, {1, 65}));
  try {
    runner.run(wide, 0, 0, nullptr);
    FAIL() << "65 tokens of 64 positions";
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "ids has rows of 65 tokens, the model has 64 positions");
  }
}

TEST(TokenCe, NothingTrainedIsLossZero) {
  const auto model = tiny_model();
  Batch batch = prepared_batch();
  batch.set("targets", Tensor::from(Shape{2, 5}, std::vector<int32_t>(10, -1)));
  batch.set("normalizer", Tensor(DType::f32, {2}));
  EXPECT_EQ(LossRunner(model, token_ce()).run(batch, 0, 0, nullptr).mean(), 0.0);
}

// Directional finite differences of the whole loss, tensor by tensor: the derivative along the
// gradient itself.
TEST(TokenCe, GradientMatchesFiniteDifferences) {
  const auto model = tiny_model();
  const ObjectiveRef objective = token_ce();
  const LossGradients got = loss_gradients(*model, *objective, prepared_batch());
  LossRunner runner(model, objective);
  for (const auto& [name, gradient] : got.gradients) {
    double norm = 0;
    for (const float value : gradient.as<float>()) norm += static_cast<double>(value) * value;
    norm = std::sqrt(norm);
    if (norm < 1e-6) continue;
    const Tensor kept = model->params().read(name).to(DType::f32).clone();
    const auto loss_at = [&, &name = name, &gradient = gradient](double step) {
      Tensor moved = kept.clone();
      for (size_t i = 0; i < moved.as<float>().size(); ++i) {
        moved.mutable_as<float>()[i] += static_cast<float>(step * gradient.as<float>()[i] / norm);
      }
      model->params().write(name, moved);
      return runner.run(prepared_batch(), 0, 0, nullptr).mean();
    };
    const double h = 1e-2;
    // Fourth order: float32 rounding of the loss allows no smaller h.
    const double slope =
        (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
    model->params().write(name, kept);
    EXPECT_NEAR(slope, norm, 2e-3 * norm + 2e-4) << name;
  }
}

// What an objective with two streams (BD3-LM, Arriola et al. 2025) takes: a row is [noised |
// clean], only noised tokens have targets. Blocks, lengths, positions and the mask are those of the
// base class.
class TwoStreams final : public Objective {
public:
  explicit TwoStreams(const Options& options) : Objective(make_schedule("linear"), options) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return true; }
  model::AttentionKind attention(const model::ModelConfig&) const override {
    return model::AttentionKind::two_stream;
  }
  Batch prepare_rows(const Batch& batch, uint64_t, int64_t,
                     const PrepareContext& context) const override {
    const TokenRows rows = token_rows(batch, context.vocab, false);
    const int64_t seq = 2 * rows.seq;
    Tensor ids(DType::i32, {rows.batch, seq}), targets(DType::i32, {rows.batch, seq}),
        weights(DType::f32, {rows.batch, seq});
    std::ranges::fill(targets.mutable_as<int32_t>(), -1);
    for (int64_t b = 0; b < rows.batch; ++b) {
      for (int64_t i = 0; i < rows.seq; ++i) {
        const auto clean = static_cast<size_t>(b * rows.seq + i),
                   noised = static_cast<size_t>(b * seq + i);
        const bool masked = i % 2 == 1;
        ids.mutable_as<int32_t>()[noised] =
            masked ? static_cast<int32_t>(context.mask_id) : rows.ids[clean];
        ids.mutable_as<int32_t>()[noised + static_cast<size_t>(rows.seq)] = rows.ids[clean];
        if (!masked) continue;
        targets.mutable_as<int32_t>()[noised] = rows.ids[clean];
        weights.mutable_as<float>()[noised] = 2.0f;
      }
    }
    Batch made = batch;
    made.set("ids", ids);
    made.set("targets", targets);
    made.set("weights", weights);
    return made;
  }

private:
  std::string name_ = "two_streams";
};

TEST(TokenCe, AnObjectiveWithTwoStreamsNeedsPrepareAndItsAttention) {
  const auto model = tiny_model();
  Options options(objective_schema("token_ce"));
  options.set_i64("block_length", 2);
  const auto objective = std::make_shared<TwoStreams>(options);
  Batch raw;
  raw.set("ids", Tensor::from(Shape{2, 4}, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  const double got = LossRunner(model, objective).run(raw, 0, 0, nullptr).mean();

  const Batch prepared =
      objective->prepare(raw, 0, 0, prepare_context(*objective, model->config()));
  Batch input;
  input.set("ids", prepared.at("ids"));
  Options forward(model::forward_schema());
  forward.set_str("attention", "two_stream");
  forward.set_i64("block_length", 2);
  const Tensor logits = model::forward(*model, input, forward).at("logits");
  const auto vocab = static_cast<size_t>(logits.shape()[2]);
  double sum = 0;
  for (size_t i = 0; i < 16; ++i) {
    const int32_t target = prepared.at("targets").as<int32_t>()[i];
    if (target < 0) continue;
    const auto row = logits.as<float>().subspan(i * vocab, vocab);
    double total = 0;
    for (const float logit : row) total += std::exp(static_cast<double>(logit));
    sum += 2 * (std::log(total) - row[static_cast<size_t>(target)]);
  }
  EXPECT_NEAR(got, sum / 4, 1e-5); // four targets
}

TEST(TokenCe, SegmentsAndKeysReachTheMask) {
  const auto model = tiny_model();
  LossRunner runner(model, token_ce());
  const double plain = runner.run(prepared_batch(), 0, 0, nullptr).mean();
  Batch segments = prepared_batch();
  segments.set("segments",
               Tensor::from(Shape{2, 5}, std::vector<int32_t>{1, 1, 2, 2, 2, 1, 1, 1, 1, 1}));
  EXPECT_NE(runner.run(segments, 0, 0, nullptr).mean(), plain);
  Batch keys = prepared_batch();
  keys.set("keys", Tensor::from(Shape{2, 5}, std::vector<uint8_t>(10, 1)));
  EXPECT_EQ(runner.run(keys, 0, 0, nullptr).mean(), plain);
}

} // namespace
} // namespace dllm::noise

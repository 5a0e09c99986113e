// The objective diffusion_gemma: which block is on the canvas, what counts, and that its gradient
// is that of the loss.

#include "base/error.h"
#include "noise/objective.h"
#include "tiny.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

std::shared_ptr<model::Model> canvas_model() {
  const Json text = {
      {"vocab_size", 23},
      {"hidden_size", 16},
      {"num_hidden_layers", 3},
      {"num_attention_heads", 2},
      {"num_key_value_heads", 1},
      {"head_dim", 8},
      {"global_head_dim", 16},
      {"num_global_key_value_heads", 1},
      {"intermediate_size", 20},
      {"max_position_embeddings", 64},
      {"initializer_range", 0.3},
      {"final_logit_softcapping", 30.0},
      {"sliding_window", 3},
      {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}},
      {"num_experts", 4},
      {"top_k_experts", 4}, // all: where a step changes the choice the loss has an edge
      {"moe_intermediate_size", 8},
      {"rope_parameters",
       {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
        {"full_attention",
         {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}}}}};
  const Json config = {
      {"model_type", "diffusion_gemma"}, {"canvas_length", 4}, {"text_config", text}};
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  return model::new_model(engine, config, Options(model::model_schema()));
}

// Two rows of 9 tokens, prompts of 2 and 3.
Batch canvas_answers() {
  Batch raw = tiny_rows(2, 9);
  raw.set("keep", Tensor::from(Shape{2, 9}, std::vector<uint8_t>{1, 1, 0, 0, 0, 0, 0, 0, 0, //
                                                                 1, 1, 1, 0, 0, 0, 0, 0, 0}));
  return raw;
}

Batch prepared_canvas(const Objective& objective, const Batch& raw, const model::Model& model) {
  return objective.prepare(raw, 3, 1, prepare_context(objective, model.config()));
}

template <class T> std::vector<T> canvas_row(const Batch& batch, const char* name, int64_t row) {
  const Tensor values = batch.at(name).row(row);
  return {values.as<T>().begin(), values.as<T>().end()};
}

TEST(DiffusionGemmaObjective, TheCanvasHoldsOneBlock) {
  const auto model = canvas_model();
  const ObjectiveRef objective = tiny_objective("diffusion_gemma", {{"ar_weight", 0.5}});
  Batch raw = canvas_answers();
  raw.set("u_block", Tensor::from(Shape{2}, std::vector<float>{0.6f, 0.0f}));
  raw.set("u_condition", Tensor::from(Shape{2}, std::vector<float>{0.0f, 0.9f}));
  raw.set("u_mask", Tensor(DType::f32, {2, 13})); // all are noise
  raw.set("u_token", Tensor::from(Shape{2, 13}, std::vector<float>(26, 0.5f / 23))); // of token 0
  const Batch prepared = prepared_canvas(*objective, raw, *model);
  const auto ids = raw.at("ids").as<int32_t>();
  // Row 0: the answer of 7 tokens has a second block of 3, places 6 to 8.
  EXPECT_EQ(canvas_row<int32_t>(prepared, "canvas_context", 0), std::vector<int32_t>{6});
  const auto targets = canvas_row<int32_t>(prepared, "targets", 0);
  EXPECT_EQ((std::vector<int32_t>(targets.begin() + 9, targets.end())),
            (std::vector<int32_t>{ids[6], ids[7], ids[8], -1}));
  EXPECT_EQ(targets[0], ids[1]); // the clean text predicts its next tokens
  EXPECT_EQ(targets[8], -1);
  const auto noised = canvas_row<int32_t>(prepared, "ids", 0);
  EXPECT_TRUE(std::equal(noised.begin(), noised.begin() + 9, ids.begin()));
  EXPECT_EQ(noised[9], 0);
  const auto positions = canvas_row<int32_t>(prepared, "positions", 0);
  EXPECT_EQ((std::vector<int32_t>(positions.begin() + 9, positions.begin() + 12)),
            (std::vector<int32_t>{6, 7, 8}));
  EXPECT_EQ(canvas_row<uint8_t>(prepared, "keys", 0)[12], 0); // the block ends with the answer
  const auto weights = canvas_row<float>(prepared, "weights", 0);
  EXPECT_EQ(weights[9], 1.0f);
  EXPECT_NEAR(weights[0], 0.5 * 3 / 8, 1e-6);
  EXPECT_EQ(prepared.at("normalizer").as<float>()[0], 3.0f);
  EXPECT_EQ(prepared.at("normalizer").as<float>()[1], 4.0f);
  EXPECT_EQ(prepared.at("conditioned").as<float>()[0], 1.0f);
  EXPECT_EQ(prepared.at("conditioned").as<float>()[1], 0.0f);

  const ObjectiveRef filling = tiny_objective("diffusion_gemma", {{"fill_token", 21}});
  const Batch filled = prepared_canvas(*filling, raw, *model);
  EXPECT_EQ(canvas_row<int32_t>(filled, "targets", 0)[12], 21);
  EXPECT_EQ(filled.at("normalizer").as<float>()[0], 4.0f);
}

// Later clean tokens are hidden from the canvas, earlier ones and those of the block are not.
TEST(DiffusionGemmaObjective, TheCanvasSeesWhatIsBeforeIt) {
  const auto model = canvas_model();
  const ObjectiveRef objective =
      tiny_objective("diffusion_gemma", {{"ar_weight", 0.0}, {"conditioned", 1.0}});
  LossRunner runner(model, objective);
  Batch raw = canvas_answers();
  raw.set("u_block", Tensor(DType::f32, {2})); // first blocks: places 2 to 5 and 3 to 6
  const Batch prepared = prepared_canvas(*objective, raw, *model);
  const double loss = runner.run(prepared, 0, 0, nullptr).sum;
  const auto with = [&](size_t place, int32_t token) {
    Batch changed = prepared;
    Tensor ids = prepared.at("ids").clone();
    ids.mutable_as<int32_t>()[place] = token;
    changed.set("ids", ids);
    return runner.run(changed, 0, 0, nullptr).sum;
  };
  EXPECT_EQ(with(7, 20), loss);
  EXPECT_EQ(with(3, 20), loss); // the clean copy of the block
  EXPECT_NE(with(1, 20), loss);
  EXPECT_NE(with(10, 20), loss);
}

TEST(DiffusionGemmaObjective, GradientsAreThoseOfTheLoss) {
  const auto model = canvas_model();
  for (const double conditioned : {0.0, 1.0}) {
    SCOPED_TRACE(conditioned);
    const ObjectiveRef objective =
        tiny_objective("diffusion_gemma", {{"conditioned", conditioned}});
    LossRunner runner(model, objective);
    const Batch prepared = prepared_canvas(*objective, canvas_answers(), *model);
    if (conditioned == 0) {
      expect_gradient(*model, runner, *objective, prepared, 1e-3); // attention of scale 1 is sharp
      continue;
    }
    // The first pass has no gradient, so differences are no measure; but the conditioning has
    // weights of its own.
    const LossGradients got = loss_gradients(*model, *objective, prepared);
    bool found = false;
    for (const auto& [name, gradient] : got.gradients) {
      double norm = 0;
      for (const float value : gradient.as<float>()) norm += std::abs(static_cast<double>(value));
      EXPECT_TRUE(std::isfinite(norm)) << name;
      found = found || (name.find("self_conditioning.down_proj") != std::string::npos && norm > 0);
    }
    EXPECT_TRUE(found);
  }
}

TEST(DiffusionGemmaObjective, MicroBatchesMakeOneBatch) {
  const auto model = canvas_model();
  const ObjectiveRef objective =
      tiny_objective("diffusion_gemma", {{"time_sampling", "low_discrepancy"}});
  LossRunner runner(model, objective);
  const LossValue whole = runner.run(tiny_rows(4, 9, 0, 4), 3, 1, nullptr);
  const LossValue first = runner.run(tiny_rows(1, 9, 0, 4), 3, 1, nullptr);
  const LossValue rest = runner.run(tiny_rows(3, 9, 1, 4), 3, 1, nullptr);
  EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-4 * std::abs(whole.sum));
  EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
}

TEST(DiffusionGemmaObjective, ErrorsSayWhatIsMissing) {
  const ObjectiveRef objective = tiny_objective("diffusion_gemma", {{"block_length", 4}});
  const auto message = [&](const model::Model& model, const Batch& raw) -> std::string {
    try {
      objective->feed(prepared_canvas(*objective, raw, model), model.config());
    } catch (const Error& error) {
      return error.text();
    }
    return "";
  };
  EXPECT_NE(message(*tiny_model(), canvas_answers()).find("needs a model with a canvas"),
            std::string::npos);
  Batch packed = canvas_answers();
  packed.set("segments", Tensor::from(Shape{2, 9}, std::vector<int32_t>(18, 2)));
  EXPECT_NE(message(*canvas_model(), packed).find("holds several texts"), std::string::npos);
}

} // namespace
} // namespace dllm::noise

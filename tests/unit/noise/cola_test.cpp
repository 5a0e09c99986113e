// Objective cola: its gradients, what a row is, and what its prior sees.

#include "base/error.h"
#include "noise/objective.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::noise {
namespace {

ObjectiveRef cola_objective(const Json& more = Json::object()) {
  Json settings = {{"latent_dim", 5},     {"latent_heads", 4}, {"encoder_layers", 1},
                   {"decoder_layers", 1}, {"prior_layers", 2}, {"block_length", 3}};
  settings.update(more);
  return tiny_objective("cola", settings);
}

// A model with the parts of the objective. Their weights are far from their first values, at which
// many gradients are 0.
std::shared_ptr<model::Model> cola_model(const Objective& objective) {
  const auto model = tiny_model();
  for (const auto& [name, config] : objective.new_parts(model->config()))
    model::add_new_network(*model, name, config, 5);
  uint64_t number = 0;
  for (const std::string& name : model->params().names()) {
    if (name.find('/') == std::string::npos) continue;
    Tensor values = model->params().read(name).to(DType::f32).clone();
    for (float& value : values.mutable_as<float>())
      value += 0.25f * std::sin(static_cast<float>(++number));
    model->params().write(name, values);
  }
  return model;
}

Batch cola_rows(const Objective& objective, const model::Model& model, const Batch& raw) {
  return objective.prepare(raw, 3, 1, prepare_context(objective, model.config()));
}

// A latent that stops the gradient of the prior is left out: its part of the loss has another
// gradient than its differences.
TEST(Cola, GradientsAreThoseOfTheLoss) {
  const Json joint = {{"stop_latents", false}, {"kl_weight", 0.1}};
  Json states = joint, trained = joint, masked = joint;
  states.update({{"source", "states"}, {"source_layer", 1}});
  trained.update({{"source", "states"}, {"source_layer", -1}, {"train_base", "true"}});
  masked.update({{"mask_weight", 0.5}, {"mask_share", 0.4}});
  for (const Json& settings : {joint, states, trained, masked}) {
    SCOPED_TRACE(settings.dump());
    const ObjectiveRef objective = cola_objective(settings);
    const auto model = cola_model(*objective);
    LossRunner runner(model, objective);
    expect_gradient(*model, runner, *objective, cola_rows(*objective, *model, tiny_rows(2, 8)),
                    3e-3);
  }
  const ObjectiveRef stopped = cola_objective({{"drop_prefix", 0.5}});
  const auto model = cola_model(*stopped);
  LossRunner runner(model, stopped);
  expect_gradient(*model, runner, *stopped, cola_rows(*stopped, *model, tiny_rows(2, 8)), 3e-3,
                  "prior/");
}

TEST(Cola, TheBaseIsTrainedForItsEmbeddingAlone) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(cola_objective()->trained_parts(), (Parts{"base", "encoder", "decoder", "prior"}));
  EXPECT_EQ(cola_objective({{"source", "states"}})->trained_parts(),
            (Parts{"encoder", "decoder", "prior"}));
  EXPECT_EQ(cola_objective({{"train_base", "false"}})->trained_parts(),
            (Parts{"encoder", "decoder", "prior"}));
}

TEST(Cola, MicroBatchesMakeOneBatch) {
  for (const Json& settings : {Json::object(), Json{{"drop_prefix", 0.5}, {"mask_weight", 1.0}}}) {
    const ObjectiveRef objective = cola_objective(settings);
    const auto model = cola_model(*objective);
    LossRunner runner(model, objective);
    const LossValue whole = runner.run(tiny_rows(4, 8, 0, 4), 3, 1, nullptr);
    const LossValue first = runner.run(tiny_rows(1, 8, 0, 4), 3, 1, nullptr);
    const LossValue rest = runner.run(tiny_rows(3, 8, 1, 4), 3, 1, nullptr);
    EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-5 * std::abs(whole.sum));
    EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
    EXPECT_EQ(whole.normalizer, 32);
  }
}

// Returns the loss of a row whose token at `place` is `id`, where the loss counts the first block
// alone.
double loss_of_first_block(const ObjectiveRef& objective,
                           const std::shared_ptr<model::Model>& model, size_t place, int32_t id,
                           bool alone, size_t begin) {
  Batch raw = tiny_rows(1, 8);
  Tensor ids = raw.at("ids").clone();
  ids.mutable_as<int32_t>()[place] = id;
  raw.set("ids", ids);
  Batch prepared = cola_rows(*objective, *model, raw);
  Tensor targets = prepared.at("targets").clone(), weights = prepared.at("weights").clone();
  for (size_t i = 0; i < 8; ++i) {
    if (i >= begin && i < begin + 3) continue;
    targets.mutable_as<int32_t>()[i] = -1;
    weights.mutable_as<float>()[i] = 0;
  }
  prepared.set("targets", targets);
  prepared.set("weights", weights);
  prepared.set("without_prefix",
               Tensor::from(Shape{1}, std::vector<uint8_t>{static_cast<uint8_t>(alone ? 1 : 0)}));
  LossRunner runner(model, objective);
  return runner.run(prepared, 0, 0, nullptr).sum;
}

// A block sees itself and the blocks before. Without the prefix its prior sees itself alone.
TEST(Cola, ABlockSeesTheBlocksBefore) {
  const ObjectiveRef objective = cola_objective({{"attention", "block_causal"}});
  const auto model = cola_model(*objective);
  const auto changes = [&](size_t place, size_t begin) {
    return loss_of_first_block(objective, model, place, 1, false, begin) !=
           loss_of_first_block(objective, model, place, 2, false, begin);
  };
  EXPECT_FALSE(changes(3, 0)); // a later block
  EXPECT_TRUE(changes(1, 0));
  EXPECT_TRUE(changes(1, 3)); // an earlier block
  EXPECT_NE(loss_of_first_block(objective, model, 0, 1, false, 3),
            loss_of_first_block(objective, model, 0, 1, true, 3));
  EXPECT_EQ(loss_of_first_block(objective, model, 0, 1, false, 0),
            loss_of_first_block(objective, model, 0, 1, true, 0));
}

TEST(Cola, OptionsThatChangeNothingAreRefused) {
  test::expect_error(Code::invalid_argument, "mask_share is set and changes nothing", [] {
    cola_objective({{"mask_share", 0.5}});
  });
  test::expect_error(Code::invalid_argument, "source_layer is set and changes nothing", [] {
    cola_objective({{"source_layer", 1}});
  });
  test::expect_error(Code::invalid_argument, "time_std is set and changes nothing", [] {
    cola_objective({{"time_draw", "uniform"}, {"time_std", 2.0}});
  });
  test::expect_error(Code::invalid_argument, "shift must be 0", [] {
    cola_objective({{"shift", 1}});
  });
  const auto model = cola_model(*cola_objective());
  const ObjectiveRef other = cola_objective({{"prior_layers", 3}});
  test::expect_error(Code::invalid_argument, "part prior of the model has num_hidden_layers 2",
                     [&] { LossRunner(model, other).run(tiny_rows(1, 8), 0, 0, nullptr); });
}

} // namespace
} // namespace dllm::noise

// Latent diffusion: its gradients, its noise, what it counts, and what it keeps.

#include "base/error.h"
#include "noise/latent/adaptive_times.h"
#include "noise/latent/running_statistics.h"
#include "noise/objective.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>
#include <map>

namespace dllm::noise {
namespace {

const Json kLdlmSizes = {{"latents", 8}, {"latent_dim", 6},   {"latent_heads", 4},
                         {"depth", 1},   {"reader_depth", 1}, {"denoiser_depth", 1}};

ObjectiveRef ldlm_objective(const Json& more = Json::object()) {
  Json settings = kLdlmSizes;
  settings.update(more);
  return tiny_objective("ldlm", settings);
}

// A model with the parts of the objective. Their weights are far from their first values, at which
// many gradients are 0.
std::shared_ptr<model::Model> latent_model(const Objective& objective) {
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

Batch ldlm_rows(const Objective& objective, const model::Model& model, const Batch& raw,
                int64_t step = 1) {
  return objective.prepare(raw, 3, step, prepare_context(objective, model.config()));
}

std::vector<float> ldlm_numbers(const Tensor& tensor) {
  const Tensor values = tensor.to(DType::f32);
  return {values.as<float>().begin(), values.as<float>().end()};
}

std::map<std::string, Tensor> ldlm_gradients(const model::Model& model, const Objective& objective,
                                             const Batch& prepared) {
  const LossGradients made = loss_gradients(model, objective, prepared);
  return {made.gradients.begin(), made.gradients.end()};
}

// The gradient stops at an own estimate, and at the states that the reader reads, so both are left
// out. Parity compares them (castlehill/ldlm).
TEST(Ldlm, GradientsAreThoseOfTheLoss) {
  const Json exact = {{"self_condition", 0.0}, {"encoder_warmup", 0}};
  Json silent = exact, prompted = exact;
  silent["tokens_weight"] = 0.0;
  prompted.update({{"tokens_weight", 0.0}, {"prompt", 1.0}, {"unconditional", 0.0}});
  for (const Json& settings : {silent, prompted}) {
    const ObjectiveRef objective = ldlm_objective(settings);
    const auto model = latent_model(*objective);
    LossRunner runner(model, objective);
    const Batch prepared = ldlm_rows(*objective, *model, tiny_rows(2, 8));
    const auto got = ldlm_gradients(*model, *objective, prepared);
    EXPECT_FALSE(got.contains("model.norm.weight")); // the base stays
    expect_gradient(*model, runner, *objective, prepared, 3e-3);
  }
  for (const char* reader : {"bidirectional", "causal", "cross"}) {
    Json settings = exact;
    settings["reader"] = reader;
    const ObjectiveRef objective = ldlm_objective(settings);
    const auto model = latent_model(*objective);
    LossRunner runner(model, objective);
    expect_gradient(*model, runner, *objective, ldlm_rows(*objective, *model, tiny_rows(2, 8)),
                    3e-3, "reader/");
  }
}

TEST(Ldlm, TheBaseMayBeTrained) {
  const ObjectiveRef objective = ldlm_objective({{"train_base", true}, {"encoder_warmup", 0}});
  EXPECT_EQ(objective->trained_parts(),
            (std::vector<std::string>{"base", "encoder", "decoder", "reader", "denoiser"}));
  const auto model = latent_model(*objective);
  const auto got =
      ldlm_gradients(*model, *objective, ldlm_rows(*objective, *model, tiny_rows(2, 8)));
  double largest = 0;
  for (const float x : ldlm_numbers(got.at("model.embed_tokens.weight")))
    largest = std::max(largest, std::abs(static_cast<double>(x)));
  EXPECT_GT(largest, 1e-3);
}

TEST(Ldlm, MicroBatchesMakeOneBatch) {
  for (const Json& settings : {Json::object(), Json{{"prompt", 0.5}}}) {
    const ObjectiveRef objective = ldlm_objective(settings);
    const auto model = latent_model(*objective);
    LossRunner runner(model, objective);
    const LossValue whole = runner.run(tiny_rows(4, 8, 0, 4), 3, 1, nullptr);
    const LossValue first = runner.run(tiny_rows(1, 8, 0, 4), 3, 1, nullptr);
    const LossValue rest = runner.run(tiny_rows(3, 8, 1, 4), 3, 1, nullptr);
    EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-5 * std::abs(whole.sum));
    EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
    EXPECT_EQ(whole.normalizer, 32);
  }
}

// The warm-up changes the gradient of the encoder alone. The published form weighs the loss.
TEST(Ldlm, TheWarmUpIsAGradientOfTheEncoder) {
  const auto run = [](int64_t step, const Json& more) {
    Json settings = {{"encoder_warmup", 100}, {"states_weight", 0.0}, {"tokens_weight", 0.0}};
    settings.update(more);
    const ObjectiveRef objective = ldlm_objective(settings);
    const auto model = latent_model(*objective);
    Batch prepared = ldlm_rows(*objective, *model, tiny_rows(2, 8), 0);
    const Batch other = ldlm_rows(*objective, *model, tiny_rows(2, 8), step);
    prepared.set("encoder_gradient", other.at("encoder_gradient"));
    return loss_gradients(*model, *objective, prepared);
  };
  const auto early = run(0, Json::object()), late = run(100, Json::object());
  EXPECT_EQ(early.loss.sum, late.loss.sum);
  std::map<std::string, Tensor> slow(early.gradients.begin(), early.gradients.end());
  for (const auto& [name, gradient] : late.gradients) {
    const std::vector<float> wanted = ldlm_numbers(gradient), got = ldlm_numbers(slow.at(name));
    const double factor = name.starts_with("encoder/") ? 0.001 : 1;
    double apart = 0, size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      apart += std::pow(got[i] - factor * wanted[i], 2);
      size += std::pow(factor * wanted[i], 2);
    }
    EXPECT_LE(std::sqrt(apart), 1e-4 * std::sqrt(size) + 1e-9) << name;
  }
  const Json published = {{"compat", "open-dllm"}, {"latent_dim", 0}};
  EXPECT_NEAR(run(0, published).loss.sum, 0.001 * run(100, published).loss.sum,
              1e-6 * run(100, published).loss.sum);
}

TEST(Ldlm, PaddingIsNotRead) {
  const ObjectiveRef objective = ldlm_objective();
  const auto model = latent_model(*objective);
  LossRunner runner(model, objective);
  Batch raw = tiny_rows(2, 8);
  raw.set("segments", Tensor::from(Shape{2, 8}, std::vector<int32_t>{1, 1, 1, 1, 1, 0, 0, 0, //
                                                                     1, 1, 1, 1, 1, 1, 1, 1}));
  const LossValue loss = runner.run(raw, 3, 1, nullptr);
  EXPECT_EQ(loss.normalizer, 13);
  Batch other = raw;
  Tensor ids = raw.at("ids").clone();
  for (const size_t at : {5, 6, 7}) ids.mutable_as<int32_t>()[at] = 1;
  other.set("ids", ids);
  EXPECT_EQ(runner.run(other, 3, 1, nullptr).sum, loss.sum);
  raw.set("segments", Tensor::from(Shape{2, 8}, std::vector<int32_t>{1, 1, 1, 2, 2, 2, 2, 2, //
                                                                     1, 1, 1, 1, 1, 1, 1, 1}));
  test::expect_error(Code::invalid_argument, "row 0 holds several texts",
                     [&] { runner.run(raw, 3, 1, nullptr); });
  test::expect_error(Code::invalid_argument, "rows have 9 tokens, and the decoder makes 8",
                     [&] { runner.run(tiny_rows(1, 9), 3, 1, nullptr); });
}

TEST(Ldlm, PromptsAreGivenTokensOrDrawn) {
  const ObjectiveRef objective =
      ldlm_objective({{"prompt", 1.0}, {"unconditional", 0.0}, {"holes", 0.0}});
  Batch raw = tiny_rows(2, 8);
  raw.set("keep", Tensor::from(Shape{2, 8}, std::vector<uint8_t>{1, 1, 0, 0, 0, 1, 0, 0, //
                                                                 0, 0, 0, 0, 0, 0, 0, 0}));
  const auto model = latent_model(*objective);
  const std::vector<float> given = ldlm_numbers(ldlm_rows(*objective, *model, raw).at("given"));
  EXPECT_EQ(std::vector<float>(given.begin(), given.begin() + 8),
            (std::vector<float>{1, 1, 0, 0, 0, 1, 0, 0}));
  EXPECT_TRUE(std::is_sorted(given.begin() + 8, given.end(), std::greater<>())); // a beginning
  const ObjectiveRef without = ldlm_objective({{"prompt", 1.0}, {"unconditional", 1.0}});
  for (const float x : ldlm_numbers(ldlm_rows(*without, *model, raw).at("given"))) EXPECT_EQ(x, 0);
  // The denoiser reads the tokens of the prompt, and no others.
  LossRunner runner(model, objective);
  Batch prepared = ldlm_rows(*objective, *model, raw);
  const double loss = runner.run(prepared, 0, 0, nullptr).sum;
  prepared.set("given", Tensor(DType::u8, {2, 8}));
  EXPECT_NE(runner.run(prepared, 0, 0, nullptr).sum, loss);
  EXPECT_THROW(ldlm_objective({{"prompt", 0.5}, {"compat", "open-dllm"}}), Error);
}

// Half of the rows read an own estimate; the published form decides for a whole batch.
TEST(Ldlm, ACoinPerRowDecidesAboutAnEstimate) {
  const auto share = [](const Json& settings) {
    const ObjectiveRef objective = ldlm_objective(settings);
    PrepareContext context;
    context.vocab = 23;
    double sum = 0;
    for (const float x :
         ldlm_numbers(objective->prepare(tiny_rows(200, 4), 1, 0, context).at("conditioned")))
      sum += x;
    return sum / 200;
  };
  EXPECT_NEAR(share(Json::object()), 0.5, 0.1);
  const double whole = share({{"compat", "open-dllm"}});
  EXPECT_TRUE(whole == 0 || whole == 1) << whole;
}

// dLLM-castlehill's networks: latents as wide as states, and a denoiser without positions or head.
TEST(Ldlm, ThePublishedNetworksCanBeMade) {
  model::ModelConfig base = tiny_model()->config();
  const auto configs =
      ldlm_objective({{"compat", "open-dllm"}, {"latent_dim", 0}})->new_parts(base);
  EXPECT_FALSE(configs.at("denoiser").contains("dllm"));
  EXPECT_FALSE(configs.at("denoiser").contains("positions"));
  EXPECT_EQ(configs.at("denoiser").at("level"), "added");
  EXPECT_EQ(configs.at("reader").at("mixer"), "self_cross_attention");
  EXPECT_EQ(configs.at("decoder").at("context_size"), 16);
  test::expect_error(Code::invalid_argument, "latent_dim is 6", [&] {
    ldlm_objective({{"compat", "open-dllm"}})->new_parts(base);
  });
  test::expect_error(Code::invalid_argument, "latent_heads is 3", [&] {
    ldlm_objective({{"latent_heads", 3}})->new_parts(base);
  });
  base.layers = 12;
  Options defaults(objective_schema("ldlm"));
  const auto sizes = make_objective("ldlm", nullptr, defaults)->new_parts(base);
  EXPECT_EQ(sizes.at("encoder").at("num_hidden_layers"), 6); // of the paper, over 12 layers
  EXPECT_EQ(sizes.at("reader").at("num_hidden_layers"), 3);
  EXPECT_EQ(sizes.at("denoiser").at("num_hidden_layers"), 12);
}

TEST(Ldlm, KeepsStatisticsAndLossesOfTimes) {
  const ObjectiveRef objective = ldlm_objective({{"time_bins", 4}, {"time_interval", 1}});
  StateArrays state = objective->first_state();
  const Observed seen = {{"states", {8, 16, 40}}, // eight numbers of mean 2 and variance 1
                         {"time_losses", {1, 2, 6, 4}},
                         {"time_rows", {1, 1, 2, 1}}};
  state = objective->next_state(state, seen);
  const RunningStatistics made = running_statistics(state.at("statistics"));
  EXPECT_EQ(made.count, 8);
  EXPECT_EQ(made.mean, 2);
  EXPECT_EQ(made.variance, 1);
  // Middles 1, 2, 3, 4: even rises.
  for (const float share : ldlm_numbers(state.at("time_shares"))) EXPECT_NEAR(share, 0.25, 1e-6);
  // The published form credits the mean loss, 13 / 5, to every bin.
  const ObjectiveRef published =
      ldlm_objective({{"time_bins", 4}, {"time_decay", 0.5}, {"compat", "open-dllm"}});
  state = published->next_state(published->first_state(), seen);
  for (const float loss : ldlm_numbers(state.at("time_losses"))) EXPECT_NEAR(loss, 1.3, 1e-6);

  Batch feed;
  feed.set("time_draw", Tensor::from(Shape{2}, std::vector<float>{0.6f, 0.6f}));
  feed.set("t", Tensor::from(Shape{2}, std::vector<float>{-1.0f, 0.5f}));
  const Batch fed = objective->with_state(feed, objective->first_state());
  EXPECT_NEAR(fed.at("t").as<float>()[0], 0.6f, 1e-6);
  EXPECT_EQ(fed.at("time_bin").as<int32_t>()[1], 2);
  EXPECT_NEAR(fed.at("alpha").as<float>()[1], 0.1f, 1e-6); // tangent, d = 3
  EXPECT_FALSE(fed.has("time_draw"));
}

} // namespace
} // namespace dllm::noise

// Training of a latent model: it learns, resumes bit for bit with its statistics and times, and is
// the same on every mesh.

#include "ckpt/weights_on_disk.h"
#include "losses/loss_difference.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_facts.h"
#include "train/checkpoint/state_file.h"
#include "unit/test_files.h"
#include "unit/test_tensors.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <variant>

namespace dllm::train {
namespace {

noise::ObjectiveRef ldlm(const Json& more = Json::object()) {
  Options options(noise::objective_schema("ldlm"));
  options.set_json({{"latents", 16},
                    {"latent_dim", 8},
                    {"latent_heads", 4},
                    {"depth", 1},
                    {"reader_depth", 1},
                    {"denoiser_depth", 2},
                    {"time_bins", 3},
                    {"time_interval", 2},
                    {"encoder_warmup", 4}});
  options.set_json(more);
  return noise::make_objective("ldlm", nullptr, options);
}

// The widths and heads of two ranks, too.
std::shared_ptr<model::Model> latent_base(const std::shared_ptr<graph::Engine>& engine) {
  Json config = tiny_config();
  config.update({{"vocab_size", 32}, {"hidden_size", 16}, {"num_key_value_heads", 4}});
  return model::new_model(engine, config, Options(model::model_schema()));
}

std::unique_ptr<Trainer> latent_trainer(const std::shared_ptr<graph::Engine>& engine,
                                        const Json& values = Json::object(),
                                        const noise::ObjectiveRef& objective = ldlm()) {
  return std::make_unique<Trainer>(latent_base(engine), objective, trainer_options(values));
}

TEST(LatentTraining, LearnsTheTokensAndLeavesTheBase) {
  const auto trainer =
      latent_trainer(tiny_engine(), {{"lr", 0.01}}, ldlm({{"decoder_noise", 0.1}}));
  const auto before = weights_of(*trainer);
  TextSource source(8);
  losses_of(*trainer, source, 1);
  const double first = trainer->metric("token_nll"), states = trainer->metric("states");
  losses_of(*trainer, source, 250);
  EXPECT_LT(trainer->metric("token_nll"), 0.5 * first);
  EXPECT_LT(trainer->metric("states"), 0.7 * states);
  for (const char* name : {"diffusion", "latent_norm", "latent_std", "cosine", "snr", "time"})
    EXPECT_TRUE(std::isfinite(trainer->metric(name))) << name;
  EXPECT_LE(std::abs(trainer->metric("cosine")), 1);
  for (const auto& [name, values] : weights_of(*trainer)) {
    if (name.find('/') == std::string::npos) EXPECT_EQ(values, before.at(name)) << name;
  }
}

TEST(LatentTraining, ResumesBitForBit) {
  const test::TempFolder folder;
  for (const Json& settings : {Json::object(), Json{{"prompt", 0.5}}, Json{{"train_base", true}}}) {
    SCOPED_TRACE(settings.dump());
    const auto whole = latent_trainer(tiny_engine(), {{"ema", 0.9}}, ldlm(settings));
    TextSource source, again;
    losses_of(*whole, source, 3);
    const std::string dir = save_checkpoint(
        *whole, nullptr, folder.path(settings.empty() ? "plain" : settings.begin().key()),
        Options(checkpoint_schema()));
    const auto state = read_objective_state(*ldlm(settings), dir);
    EXPECT_EQ(state.at("statistics").as<float>()[0], 3 * 4 * 16 * 16);
    EXPECT_EQ(state.at("time_rows").as<float>()[0] + state.at("time_rows").as<float>()[1] +
                  state.at("time_rows").as<float>()[2],
              12);
    const std::vector<double> wanted = losses_of(*whole, source, 5);
    const auto second = latent_trainer(tiny_engine(), {{"ema", 0.9}}, ldlm(settings));
    restore_checkpoint(*second, nullptr, dir);
    again.seek(3);
    EXPECT_EQ(losses_of(*second, again, 5), wanted);
    EXPECT_EQ(weights_of(*second), weights_of(*whole));
  }
}

// The rows of the times are those of all steps so far; every 20 steps an event has them.
TEST(LatentTraining, EventsHaveProfilesOfTheTimes) {
  const auto trainer = latent_trainer(tiny_engine());
  TextSource source;
  std::map<int64_t, std::vector<float>> rows;
  trainer->run(source, 41, [&](const Event& event) {
    if (const Event::Value* found = event.find("time_rows"))
      rows[std::get<int64_t>(*event.find("step"))] = std::get<std::vector<float>>(*found);
    EXPECT_EQ(event.find("time_rows") == nullptr, event.find("time_losses") == nullptr);
    return Answer::go_on;
  });
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& [step, counts] : rows) {
    ASSERT_EQ(counts.size(), 3u);
    EXPECT_EQ(counts[0] + counts[1] + counts[2], static_cast<float>(4 * step)) << step;
  }
  EXPECT_TRUE(rows.contains(20) && rows.contains(40));
}

// A checkpoint lists which parts the run changed, and a description what each part reads.
TEST(LatentTraining, DescribesThePartsOfACheckpoint) {
  const test::TempFolder folder;
  const auto trainer = latent_trainer(tiny_engine());
  TextSource source;
  losses_of(*trainer, source, 1);
  const std::string dir =
      save_checkpoint(*trainer, nullptr, folder.path("run"), Options(checkpoint_schema()));
  const Json about = ckpt::WeightsOnDisk(dir).describe(), parts = describe_parts(dir, about);
  ASSERT_EQ(parts.size(), 5u);
  int64_t all = 0;
  for (const Json& part : parts) {
    const auto name = part.at("name").get<std::string>();
    EXPECT_EQ(part.at("trained"), name != "base") << name;
    EXPECT_EQ(part.at("hidden"), 16) << name;
    EXPECT_EQ(part.contains("reads"), name != "base") << name;
    all += part.at("parameters").get<int64_t>();
    if (name == "denoiser") {
      EXPECT_EQ(part.at("layers"), 2);
      EXPECT_EQ(part.at("reads"), Json::array({"encoder"}));
      EXPECT_EQ(part.at("inputs")[0], (Json{{"name", "noised"}, {"size", 8}}));
    }
  }
  EXPECT_EQ(all, about.at("parameters"));
  EXPECT_EQ(parts[0].at("parameters"), trainer->trained_model().params().parameter_count());
  // A folder of the model has the same parts, and has no fact of a run.
  const std::string model = folder.path("model");
  model::save_model(trainer->trained_model(), model, Options(model::save_schema()));
  const Json saved = describe_parts(model, ckpt::WeightsOnDisk(model).describe());
  ASSERT_EQ(saved.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(saved[i].at("parameters"), parts[i].at("parameters")) << saved[i].dump();
    EXPECT_EQ(saved[i].at("layers"), parts[i].at("layers"));
    EXPECT_FALSE(saved[i].contains("trained") || saved[i].contains("reads"));
  }
}

TEST(LatentTraining, OnAMeshTheLossIsThatOfOneRank) {
  for (const Json& settings : {Json::object(), Json{{"prompt", 0.5}}}) {
    const auto losses = [&](const std::shared_ptr<graph::Engine>& engine) {
      const auto trainer = latent_trainer(engine, Json::object(), ldlm(settings));
      TextSource source(8);
      return losses_of(*trainer, source, 4);
    };
    const std::vector<double> alone = losses(tiny_engine());
    for (const char* mesh : {"data=2", "fsdp=2", "tensor=2", "data=2,fsdp=2,tensor=2"})
      expect_losses(losses(mesh_engine(mesh)), alone, mesh);
  }
}

TEST(LatentTraining, MicroBatchesGiveTheLossOfOneBatch) {
  const auto whole = latent_trainer(tiny_engine()), parts = latent_trainer(tiny_engine());
  TextSource large(4), small(2);
  std::vector<double> wanted, made;
  for (int i = 0; i < 4; ++i) {
    wanted.push_back(whole->step(*large.next()));
    for (int k = 0; k < 2; ++k) parts->accumulate(*small.next());
    made.push_back(parts->apply());
  }
  expect_losses(made, wanted, "two micro-batches");
}

} // namespace
} // namespace dllm::train

// Training of a Cola model and of the latent term: they learn, resume bit for bit, are the same on
// every mesh, and are saved with the base.

#include "losses/loss_difference.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::train {
namespace {

noise::ObjectiveRef cola_model_objective(const Json& more = Json::object()) {
  Options options(noise::objective_schema("cola"));
  options.set_json({{"latent_dim", 6},
                    {"latent_heads", 4},
                    {"encoder_layers", 1},
                    {"decoder_layers", 1},
                    {"prior_layers", 2},
                    {"block_length", 4}});
  options.set_json(more);
  return noise::make_objective("cola", nullptr, options);
}

noise::ObjectiveRef cola_term_objective() {
  Options options(noise::objective_schema("mdlm"));
  options.set_json({{"cola", 0.5},
                    {"cola_global", 2},
                    {"cola_local", 4},
                    {"cola_block", 2},
                    {"cola_layer", -1},
                    {"cola_heads", 4},
                    {"cola_encoder_layers", 1},
                    {"cola_layers", 1}});
  return noise::make_objective("mdlm", nullptr, options);
}

// The widths and heads of two ranks, too.
std::unique_ptr<Trainer> cola_trainer(const std::shared_ptr<graph::Engine>& engine,
                                      const noise::ObjectiveRef& objective,
                                      const Json& values = Json::object()) {
  Json config = tiny_config();
  config.update({{"vocab_size", 32}, {"hidden_size", 16}, {"num_key_value_heads", 4}});
  const auto model = model::new_model(engine, config, Options(model::model_schema()));
  return std::make_unique<Trainer>(model, objective, trainer_options(values));
}

TEST(ColaTraining, LearnsTheTokens) {
  const auto trainer = cola_trainer(tiny_engine(), cola_model_objective(), {{"lr", 0.01}});
  TextSource source(8);
  losses_of(*trainer, source, 1);
  const double first = trainer->metric("reconstruction"), flow = trainer->metric("flow");
  losses_of(*trainer, source, 150);
  EXPECT_LT(trainer->metric("reconstruction"), 0.2 * first);
  EXPECT_LT(trainer->metric("flow"), flow);
  for (const char* name : {"kl", "latent_square"})
    EXPECT_TRUE(std::isfinite(trainer->metric(name))) << name;
}

TEST(ColaTraining, TheTermTrainsItsNetworks) {
  const auto trainer = cola_trainer(tiny_engine(), cola_term_objective(), {{"lr", 0.01}});
  EXPECT_EQ(trainer->trained_model().parts().names(),
            (std::vector<std::string>{"base", "cola_denoiser", "cola_global", "cola_local"}));
  TextSource source(8);
  losses_of(*trainer, source, 1);
  const double first = trainer->metric("cola");
  losses_of(*trainer, source, 60);
  EXPECT_LT(trainer->metric("cola"), first);
  EXPECT_GT(trainer->metric("cola_std"), 0);
}

TEST(ColaTraining, ResumesBitForBit) {
  const test::TempFolder folder;
  int number = 0;
  for (const noise::ObjectiveRef& objective :
       {cola_model_objective(), cola_model_objective({{"source", "states"}, {"source_layer", -1}}),
        cola_term_objective()}) {
    const auto whole = cola_trainer(tiny_engine(), objective);
    TextSource source, again;
    losses_of(*whole, source, 3);
    const std::string dir = save_checkpoint(*whole, nullptr, folder.path(std::to_string(number++)),
                                            Options(checkpoint_schema()));
    const std::vector<double> wanted = losses_of(*whole, source, 4);
    const auto second = cola_trainer(tiny_engine(), objective);
    restore_checkpoint(*second, nullptr, dir);
    again.seek(3);
    EXPECT_EQ(losses_of(*second, again, 4), wanted);
    EXPECT_EQ(weights_of(*second), weights_of(*whole));
    const auto loaded = model::load_model(tiny_engine(), dir, Options(model::model_schema()));
    EXPECT_EQ(loaded->parts().names(), whole->trained_model().parts().names());
  }
}

TEST(ColaTraining, OnAMeshTheLossIsThatOfOneRank) {
  for (const noise::ObjectiveRef& objective :
       {cola_model_objective({{"mask_weight", 0.5}}), cola_term_objective()}) {
    const auto losses = [&](const std::shared_ptr<graph::Engine>& engine) {
      const auto trainer = cola_trainer(engine, objective);
      TextSource source(8);
      return losses_of(*trainer, source, 3);
    };
    const std::vector<double> alone = losses(tiny_engine());
    for (const char* mesh : {"data=2", "fsdp=2", "tensor=2"})
      expect_losses(losses(mesh_engine(mesh)), alone, mesh);
  }
}

} // namespace
} // namespace dllm::train

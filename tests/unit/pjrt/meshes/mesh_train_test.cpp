// Training on several devices of a plugin: the losses and weights of one rank, state that is kept
// once, checkpoints that go on elsewhere.

#include "base/files.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/pjrt/meshes/mesh_plugins.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::pjrt {
namespace {

using train::TextSource;
using train::Trainer;

constexpr int64_t kRows = 8;

// Sizes that 2 and 4 divide.
Json cut_config() {
  Json config = train::tiny_config();
  config.update({{"vocab_size", 32}, {"hidden_size", 16}, {"num_key_value_heads", 4}});
  return config;
}

std::unique_ptr<Trainer> trainer_on(const std::shared_ptr<graph::Engine>& engine,
                                    const Json& values = Json::object(),
                                    const Json& config = cut_config()) {
  return std::make_unique<Trainer>(model::new_model(engine, config, Options(model::model_schema())),
                                   noise::make_objective("mdlm"), train::trainer_options(values));
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 1e-5 * std::fabs(wanted[i])) << what << " step " << i + 1;
}

class PjrtMeshTraining : public OnPlugins {
protected:
  static std::shared_ptr<graph::Engine> engine(const std::string& mesh) {
    return mesh_engine(path(), mesh);
  }
};

TEST_P(PjrtMeshTraining, TwentyStepsHaveTheLossesOfOneRank) {
  TextSource source(kRows);
  const auto one = trainer_on(engine(""));
  const std::vector<double> wanted = train::losses_of(*one, source, 20);
  EXPECT_LT(wanted.back(), 0.9 * wanted.front());
  const auto weights = train::weights_of(*one);
  for (const char* mesh : {"data=2", "fsdp=2,tensor=2", "data=2,fsdp=2,tensor=2"}) {
    TextSource own(kRows);
    const auto trainer = trainer_on(engine(mesh));
    expect_near(train::losses_of(*trainer, own, 20), wanted, mesh);
    EXPECT_NEAR(trainer->metric("grad_norm"), one->metric("grad_norm"), 1e-4) << mesh;
    for (const auto& [name, numbers] : train::weights_of(*trainer)) {
      for (size_t i = 0; i < numbers.size(); ++i)
        ASSERT_NEAR(numbers[i], weights.at(name)[i], 3e-4) << mesh << " " << name << " " << i;
    }
  }
}

TEST_P(PjrtMeshTraining, ExpertsOnTheirRanksHaveTheLossesOfOneRank) {
  Json config = cut_config();
  config.update({{"model_type", "qwen3_moe"},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"norm_topk_prob", true},
                 {"decoder_sparse_step", 1},
                 {"moe_intermediate_size", 12}});
  TextSource source(kRows), own(kRows);
  const std::vector<double> wanted =
      train::losses_of(*trainer_on(engine(""), Json::object(), config), source, 5);
  const auto cut = trainer_on(engine("fsdp=2,expert=2"), Json::object(), config);
  expect_near(train::losses_of(*cut, own, 5), wanted, "fsdp=2,expert=2");
}

// Layers that are computed again, micro batches, and an average of the weights.
TEST_P(PjrtMeshTraining, OtherFormsOfAStep) {
  for (const Json& values : {Json{{"remat", true}, {"ema", 0.9}}, Json{{"accumulate", 2}}}) {
    const auto losses = [&](const char* mesh) {
      const auto trainer = trainer_on(engine(mesh), values);
      TextSource source(kRows);
      std::vector<double> made;
      trainer->run(source, 3, [&](const Event& event) {
        if (event.kind() == EventKind::train_step)
          made.push_back(std::get<double>(*event.find("loss")));
        return Answer::go_on;
      });
      return made;
    };
    expect_near(losses("fsdp=2,tensor=2"), losses(""), values.dump());
  }
}

// Parts of a parameter lie once on the mesh; a step writes them in place and is read once.
TEST_P(PjrtMeshTraining, StateIsKeptOnceAndWrittenInPlace) {
  const auto mine = engine("fsdp=2,tensor=2");
  const auto one = trainer_on(mine);
  TextSource source(kRows);
  one->run(source, 3);
  const int64_t used = mine->i64("memory_used"), trips = mine->i64("round_trips");
  const int64_t compiles = mine->i64("compiles");
  one->run(source, 6);
  EXPECT_EQ(mine->i64("memory_used"), used);
  EXPECT_EQ(mine->i64("compiles"), compiles);
  EXPECT_LE(mine->i64("round_trips") - trips, 6);
  for (const auto& entry : one->model("live")->params().entries()) {
    if (entry.name != "layers.q" && entry.name != "layers.down" && entry.name != "embedding")
      continue;
    const int64_t whole = entry.buffer->read().byte_size();
    EXPECT_EQ(entry.buffer->memory_bytes(), whole) << entry.name;
  }
}

// Bit for bit on the same mesh; on another engine and mesh it goes on.
TEST_P(PjrtMeshTraining, ACheckpointGoesOnOnAnotherMesh) {
  const test::TempFolder folder;
  const auto saved = trainer_on(engine("fsdp=2,tensor=2"));
  TextSource source(kRows);
  train::losses_of(*saved, source, 3);
  const std::string dir =
      train::save_checkpoint(*saved, &source, folder.path(), Options(train::checkpoint_schema()));
  const std::vector<double> wanted = train::losses_of(*saved, source, 3);
  for (const char* mesh : {"fsdp=2,tensor=2", "fsdp=4", ""}) {
    const auto resumed =
        trainer_on(std::string(mesh).empty() ? train::tiny_engine() : engine(mesh));
    TextSource own(kRows);
    train::restore_checkpoint(*resumed, &own, dir);
    const std::vector<double> got = train::losses_of(*resumed, own, 3);
    if (std::string(mesh) == "fsdp=2,tensor=2")
      EXPECT_EQ(got, wanted);
    else
      expect_near(got, wanted, std::string("from fsdp=2,tensor=2 to ") + mesh);
  }
}

DLLM_ON_PLUGINS(PjrtMeshTraining);

} // namespace
} // namespace dllm::pjrt

// What a restore brings back of the weights that are not trained, what an older checkpoint lacks,
// and what a trainer leaves of a model: its freeze, and a start that fails.

#include "../tiny.h"
#include "base/files.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "decode/decoder/decoder.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <unistd.h>

namespace dllm::train {
namespace {

class RestoreTest : public testing::Test {
protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/dllm_restore_" + std::to_string(getpid());
    remove_all(root_);
  }
  void TearDown() override { remove_all(root_); }

  std::string save(Trainer& trainer) {
    return save_checkpoint(trainer, nullptr, root_, Options(checkpoint_schema()));
  }
  // A copy of a checkpoint with another trainer.json.
  std::string with_record(const std::string& dir, const Json& record) {
    const std::string other = join_path(root_, "other");
    remove_all(other);
    make_directories(other);
    ckpt::CheckpointWriter writer(other, 1);
    for (const char* file : {"model/config.json", "model/model.safetensors",
                             "state/rank_000.safetensors", "state/layout.json"})
      write_file_atomic(writer.path(file), read_text(join_path(dir, file)));
    write_file_atomic(writer.path("trainer.json"), record.dump(1));
    return writer.commit(0);
  }

  std::string root_;
};

std::shared_ptr<model::Model> seeded_model(int64_t seed, const std::string& dtype) {
  Options options(model::model_schema());
  options.set_i64("seed", seed);
  options.set_str("dtype", dtype);
  return model::new_model(tiny_engine(), tiny_config(), options);
}

std::unique_ptr<Trainer> trainer_of(const std::shared_ptr<model::Model>& model,
                                    const Json& values) {
  return std::make_unique<Trainer>(model, noise::make_objective("mdlm"), trainer_options(values));
}

TEST_F(RestoreTest, FrozenWeightsComeBackOrAreNamed) {
  for (const std::string dtype : {"f32", "bf16", "f16", "int8"}) {
    for (const Json& freeze :
         {Json{"model.embed_tokens.weight"}, Json{"*layers.0*"}, Json{"*norm*", "*mlp*"}}) {
      SCOPED_TRACE(dtype + " " + freeze.dump());
      remove_all(root_);
      const Json options = {{"freeze", freeze}, {"ema", 0.5}};
      const auto first = trainer_of(seeded_model(1, dtype), options);
      TextSource source;
      first->step(*source.next());
      const std::string dir = save(*first);
      const auto saved = weights_of(*first);
      const auto second = trainer_of(seeded_model(2, dtype), options);
      const auto before = weights_of(*second);
      try {
        restore_checkpoint(*second, nullptr, dir);
        EXPECT_EQ(weights_of(*second), weights_of(*first));
        const Batch next = *source.next();
        EXPECT_EQ(second->step(next), first->step(next));
      } catch (const Error& error) {
        EXPECT_TRUE(dtype == "int8" || dtype == "f16") << error.text();
        EXPECT_NE(error.text().find("is frozen, stored as"), std::string::npos) << error.text();
        EXPECT_EQ(weights_of(*second), before);
      }
      const auto same = trainer_of(seeded_model(1, dtype), options);
      restore_checkpoint(*same, nullptr, dir);
      EXPECT_EQ(weights_of(*same), saved);
    }
  }
}

// An option that is newer than a checkpoint has its default in it, of the optimizer, the objective
// and its schedule.
TEST_F(RestoreTest, AMissingOptionIsItsDefault) {
  const auto trainer = trainer_of(seeded_model(1, "f32"), Json::object());
  TextSource source;
  trainer->step(*source.next());
  const std::string dir = save(*trainer);
  const Json record = parse_json(read_text(join_path(dir, "trainer.json")), "trainer.json");
  const auto restore_without = [&](const std::vector<std::string>& place, const std::string& key) {
    Json changed = record;
    Json* object = &changed;
    for (const std::string& name : place) object = &object->at(name);
    ASSERT_EQ(object->erase(key), 1u) << key;
    const auto other = trainer_of(seeded_model(1, "f32"), Json::object());
    restore_checkpoint(*other, nullptr, with_record(dir, changed));
    EXPECT_EQ(weights_of(*other), weights_of(*trainer)) << key;
  };
  const Json defaults = Options(trainer_schema()).to_json();
  for (const auto& [key, value] : record.at("options").items()) {
    SCOPED_TRACE(key);
    if (defaults.at(key) == value) restore_without({"options"}, key);
  }
  const Json& objective = record.at("objective");
  for (const auto& [key, value] : objective.items()) {
    SCOPED_TRACE(key);
    if (key != "name" && key != "schedule" && key != "quirks") restore_without({"objective"}, key);
  }
  for (const auto& [key, value] : objective.at("schedule").items()) {
    SCOPED_TRACE(key);
    if (key != "name" && key != "quirks") restore_without({"objective", "schedule"}, key);
  }
  // The default of a trainer that has another value is not the trainer's value.
  Json changed = record;
  changed["options"].erase("beta2");
  const std::string older = with_record(dir, changed);
  test::expect_error(Code::failed_precondition, "beta2", [&] {
    restore_checkpoint(*trainer_of(seeded_model(1, "f32"), {{"beta2", 0.5}}), nullptr, older);
  });
}

// Checkpoints that released versions saved (tests/data/make_checkpoint.py): the run goes on with
// the losses that the version itself had.
TEST(OldCheckpoints, GoOn) {
  const std::string root = DLLM_SOURCE_DIR "/tests/data/checkpoints";
  const std::vector<std::string> versions = list_directory(root);
  ASSERT_FALSE(versions.empty());
  for (const std::string& version : versions) {
    SCOPED_TRACE(version);
    const std::string folder = join_path(root, version), dir = join_path(folder, "step_000003");
    const Json record = parse_json(read_text(join_path(folder, "losses.json")), "losses.json");
    const auto losses = record.at("losses").get<std::vector<double>>();
    const auto steps = record.at("steps").get<int64_t>();
    const auto trainer =
        trainer_of(model::load_model(tiny_engine(), dir, Options(model::model_schema())),
                   {{"ema", 0.9}, {"freeze", {"model.layers.0.*"}}});
    restore_checkpoint(*trainer, nullptr, dir);
    EXPECT_EQ(trainer->steps_done(), steps);
    TextSource source;
    source.seek(steps);
    const std::vector<double> after = losses_of(*trainer, source, std::ssize(losses) - steps);
    for (size_t i = 0; i < after.size(); ++i) {
      const double wanted = losses[static_cast<size_t>(steps) + i];
      EXPECT_NEAR(after[i], wanted, 1e-5 * wanted) << i; // another chip adds in another order
    }
  }
}

// A second trainer may cut stacks of the first, whose arrays are for the stacks as they were.
TEST(TwoTrainers, TheFirstSaysWhenTheModelIsCut) {
  const auto model = tiny_model();
  const auto first = trainer_of(model, Json::object());
  TextSource source;
  first->step(*source.next());
  const auto same = trainer_of(model, {{"freeze", {"*norm*"}}}); // cuts nothing
  first->step(*source.next());
  same->step(*source.next());
  const auto second = trainer_of(model, {{"freeze", {"model.layers.1.*"}}});
  const auto before = weights_of(*model);
  for (Trainer* older : {first.get(), same.get()}) {
    test::expect_error(Code::failed_precondition, "have changed since this trainer was made",
                       [&] { older->step(*source.next()); });
    EXPECT_THROW(older->accumulate(*source.next()), Error);
  }
  EXPECT_EQ(weights_of(*model), before);
  second->step(*source.next());
  EXPECT_NE(weights_of(*model), before);
}

TEST(TrainerFreeze, GoesWithItsTrainer) {
  const auto model = tiny_model();
  const std::string name = "model.embed_tokens.weight";
  const auto changed = [&](Trainer& trainer) {
    const auto before = weights_of(*model);
    TextSource source;
    trainer.step(*source.next());
    return before.at(name) != weights_of(*model).at(name);
  };
  const auto frozen = [&] { return model->describe().dump().find("\"trainable\":false"); };
  {
    const auto first = trainer_of(model, {{"freeze", {"*embed*"}}});
    EXPECT_NE(frozen(), std::string::npos);
    EXPECT_FALSE(changed(*first));
  }
  EXPECT_EQ(frozen(), std::string::npos);
  const auto second = trainer_of(model, Json::object());
  EXPECT_TRUE(changed(*second));
}

// Options that fail at each stage of a trainer's start, on models that a start changes in every
// way.
TEST(TrainerStart, AFailureLeavesTheModel) {
  Json config = tiny_config();
  config.erase("mask_token_id");
  for (const std::string dtype : {"f32", "bf16", "int8"}) {
    for (const int64_t limit : {0, 1}) {
      Options engine(graph::engine_schema());
      engine.set_i64("threads", 1);
      Options options(model::model_schema());
      options.set_str("dtype", dtype);
      const auto model = model::new_model(cpu::make_engine(engine), config, options);
      const Json before = model->describe();
      const auto weights = weights_of(*model);
      const model::ModelConfig words = model->config();
      for (const Json& values :
           {Json{{"freeze", {"nothing*"}}}, Json{{"freeze", {"*layers.1*", "nothing*"}}},
            Json{{"groups", {"*embed* lr=1", "nothing* lr=2"}}}, Json{{"freeze", {"*"}}},
            Json{{"remat", true}, {"memory", 1000}}, Json{{"momentum", 0.5}},
            Json{{"freeze", {"*layers.0*"}}, {"groups", {"bad"}}}}) {
        SCOPED_TRACE(dtype + values.dump());
        if (limit > 0)
          model->engine().set_i64("memory_limit", model->engine().i64("memory_used") + 1);
        EXPECT_THROW(trainer_of(model, values), Error);
        model->engine().set_i64("memory_limit", 0);
        EXPECT_EQ(model->describe(), before);
        EXPECT_EQ(weights_of(*model), weights);
        EXPECT_EQ(model->config().attention, words.attention);
        EXPECT_EQ(model->config().mask_token_id, words.mask_token_id);
      }
    }
  }
}

// Options minutes and tokens count the runs of the trainer before a restore too.
TEST_F(RestoreTest, TheClockOfABudgetGoesOn) {
  const auto trainer_for = [](double seconds) {
    return tiny_trainer({{"minutes", seconds / 60}, {"schedule", "cosine"}, {"warmup", 0}});
  };
  TextSource source;
  const auto first = trainer_for(3600);
  EXPECT_TRUE(first->run(source, 3));
  const double used = first->run_seconds();
  EXPECT_GT(used, 0.0);
  EXPECT_EQ(first->metric("run_seconds"), used);
  const std::string dir = save(*first);

  const auto longer = trainer_for(used + 0.3), spent = trainer_for(used / 2);
  restore_checkpoint(*longer, nullptr, dir);
  EXPECT_EQ(longer->metric("run_seconds"), used);
  EXPECT_FALSE(longer->run(source, 1 << 30));
  EXPECT_GE(longer->run_seconds(), used + 0.3);
  EXPECT_LT(longer->metric("lr"), 3e-3); // the cosine has begun
  restore_checkpoint(*spent, nullptr, dir);
  EXPECT_FALSE(spent->run(source, 1 << 30));
  EXPECT_EQ(spent->steps_done(), 3) << "a run after a used budget takes no step";
}

} // namespace
} // namespace dllm::train

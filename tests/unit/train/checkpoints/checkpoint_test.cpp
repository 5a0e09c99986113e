#include "train/checkpoint/checkpoint.h"

#include "../tiny.h"
#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "unit/cancel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace dllm::train {
namespace {

class CheckpointTest : public testing::Test {
protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/dllm_train_" + std::to_string(getpid());
    remove_all(root_);
  }
  void TearDown() override { remove_all(root_); }

  static Options options(const Json& values = Json::object()) {
    Options made(checkpoint_schema());
    made.set_json(values);
    return made;
  }
  std::string save(Trainer& trainer, const BatchSource* source,
                   const Json& values = Json::object()) {
    return save_checkpoint(trainer, source, root_, options(values));
  }

  std::string root_;
};

const Json kOptions = {{"schedule", "cosine"}, {"steps", 12}, {"ema", 0.8}};

TEST_F(CheckpointTest, ResumedEqualsUninterruptedToTheBit) {
  auto whole = tiny_trainer(kOptions);
  TextSource source;
  whole->run(source, 9);

  auto first = tiny_trainer(kOptions);
  TextSource first_source;
  first->run(first_source, 4);
  const std::string dir = save(*first, &first_source, {{"script_state", R"({"best": 1.5})"}});
  EXPECT_EQ(file_name(dir), "step_000004");
  for (const char* file :
       {"model/config.json", "model/model.safetensors", "state/rank_000.safetensors",
        "state/layout.json", "trainer.json", "COMMIT"}) {
    EXPECT_TRUE(file_exists(join_path(dir, file))) << file;
  }

  auto second = tiny_trainer(kOptions);
  TextSource second_source;
  const Restored restored = restore_checkpoint(*second, &second_source, dir);
  EXPECT_EQ(restored.step, 4);
  EXPECT_EQ(parse_json(restored.script_state, "state").at("best"), 1.5);
  EXPECT_EQ(second_source.position(), 4);
  EXPECT_EQ(weights_of(*second), weights_of(*first));
  second->run(second_source, 5);
  EXPECT_EQ(weights_of(*second), weights_of(*whole));
  EXPECT_EQ(weights_of(*second->model("ema")), weights_of(*whole->model("ema")));
  EXPECT_EQ(second->metric("loss"), whole->metric("loss"));
  EXPECT_EQ(second->metric("tokens"), whole->metric("tokens"));
}

TEST_F(CheckpointTest, ResumesInTheMiddleOfAnAccumulation) {
  TextSource source;
  std::vector<Batch> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(*source.next());

  auto whole = tiny_trainer();
  whole->step(batches[0]);
  for (int i = 1; i < 4; ++i) whole->accumulate(batches[static_cast<size_t>(i)]);
  const double expected = whole->apply();
  whole->step(batches[4]);

  auto first = tiny_trainer();
  first->step(batches[0]);
  first->accumulate(batches[1]);
  first->accumulate(batches[2]);
  const std::string dir = save(*first, nullptr);

  auto second = tiny_trainer();
  restore_checkpoint(*second, nullptr, dir);
  EXPECT_EQ(second->accumulated(), 2);
  second->accumulate(batches[3]);
  EXPECT_EQ(second->apply(), expected);
  second->step(batches[4]);
  EXPECT_EQ(weights_of(*second), weights_of(*whole));
}

TEST_F(CheckpointTest, TheModelInsideOpensAsAModel) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 2);
  const std::string dir = save(*trainer, &source);
  const auto model =
      model::load_model(tiny_engine(), join_path(dir, "model"), Options(model::model_schema()));
  EXPECT_EQ(weights_of(*model), weights_of(*trainer));
}

TEST_F(CheckpointTest, WhatDiffersIsNamed) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  const std::string dir = save(*trainer, &source);
  const auto refusal = [&](Trainer& other) -> std::string {
    const auto before = weights_of(other);
    try {
      restore_checkpoint(other, nullptr, dir);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::failed_precondition);
      EXPECT_EQ(weights_of(other), before);
      return error.text();
    }
    return "no error";
  };
  EXPECT_NE(refusal(*tiny_trainer({{"beta2", 0.9}})).find("beta2 0.95, this trainer has 0.9"),
            std::string::npos);
  EXPECT_NE(refusal(*tiny_trainer({{"ema", 0.5}})).find("ema"), std::string::npos);
  EXPECT_NE(refusal(*tiny_trainer(Json::object(), 1, "ar")).find("objective."), std::string::npos);
  EXPECT_NE(refusal(*tiny_trainer({{"freeze", {"*norm*"}}})).find("tensors of state"),
            std::string::npos);
  Trainer untied(tiny_model(1, false), noise::make_objective("mdlm"), trainer_options());
  EXPECT_NE(refusal(untied).find("lm_head.weight"), std::string::npos);
  Options chosen(model::model_schema());
  chosen.set_i64("shift", 1);
  Trainer shifted(model::new_model(tiny_engine(), tiny_config(), chosen),
                  noise::make_objective("mdlm"), trainer_options());
  EXPECT_NE(refusal(shifted).find("shift 0, this trainer has 1"), std::string::npos)
      << refusal(shifted);
  // Another learning rate is no obstacle: the caller may want it.
  auto slower = tiny_trainer({{"lr", 1e-5}, {"warmup", 0}});
  restore_checkpoint(*slower, nullptr, dir);
  slower->step(*source.next());
  EXPECT_NEAR(slower->metric("lr"), 1e-5, 1e-12);
}

// Whatever the optimizer keeps comes back: one array, none, and one in the middle of an update.
TEST_F(CheckpointTest, SgdResumesToTheBit) {
  for (const Json& own :
       {Json{{"momentum", 0.9}, {"nesterov", true}, {"ema", 0.8}}, Json{{"momentum", 0.0}}}) {
    remove_all(root_);
    Json options = own;
    options["optimizer"] = "sgd";
    options["lr"] = 0.1;
    TextSource source;
    std::vector<Batch> batches;
    for (int i = 0; i < 6; ++i) batches.push_back(*source.next());
    auto whole = tiny_trainer(options), first = tiny_trainer(options),
         second = tiny_trainer(options);
    for (Trainer* trainer : {whole.get(), first.get()}) {
      trainer->step(batches[0]);
      trainer->step(batches[1]);
    }
    restore_checkpoint(*second, nullptr, save(*first, nullptr));
    for (Trainer* trainer : {whole.get(), second.get()}) {
      trainer->step(batches[2]);
      trainer->accumulate(batches[3]);
    }
    EXPECT_EQ(weights_of(*second), weights_of(*whole)) << own.dump();
    auto third = tiny_trainer(options);
    restore_checkpoint(*third, nullptr, save(*second, nullptr));
    for (Trainer* trainer : {whole.get(), third.get()}) {
      trainer->accumulate(batches[4]);
      trainer->apply();
      trainer->step(batches[5]);
    }
    EXPECT_EQ(weights_of(*third), weights_of(*whole)) << own.dump();
  }
}

TEST_F(CheckpointTest, AnotherOptimizerIsNamed) {
  auto trainer = tiny_trainer({{"optimizer", "sgd"}, {"momentum", 0.5}});
  TextSource source;
  trainer->run(source, 1);
  const std::string dir = save(*trainer, &source);
  const auto refusal = [&](const Json& options) -> std::string {
    try {
      restore_checkpoint(*tiny_trainer(options), nullptr, dir);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::failed_precondition);
      return error.text();
    }
    return "no error";
  };
  EXPECT_NE(refusal(Json::object()).find("optimizer \"sgd\", this trainer has \"adamw\""),
            std::string::npos);
  EXPECT_NE(
      refusal({{"optimizer", "sgd"}, {"momentum", 0.9}}).find("momentum 0.5, this trainer has 0.9"),
      std::string::npos);
}

// Checkpoints of AdamW that were saved before there was a choice hold no name of an optimizer.
TEST_F(CheckpointTest, OlderOnesWithoutAnOptimizerRestore) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 2);
  const std::string dir = save(*trainer, &source), older_root = join_path(root_, "older");
  Json record = parse_json(read_text(join_path(dir, "trainer.json")), "trainer.json");
  for (const char* key : {"optimizer", "momentum", "nesterov"})
    ASSERT_EQ(record["options"].erase(key), 1u) << key;
  make_directories(older_root);
  ckpt::CheckpointWriter writer(older_root, 2);
  for (const char* file : {"model/config.json", "model/model.safetensors",
                           "state/rank_000.safetensors", "state/layout.json"})
    write_file_atomic(writer.path(file), read_text(join_path(dir, file)));
  write_file_atomic(writer.path("trainer.json"), record.dump(1));
  const std::string older = writer.commit(0);

  auto resumed = tiny_trainer();
  restore_checkpoint(*resumed, nullptr, older);
  EXPECT_EQ(weights_of(*resumed), weights_of(*trainer));
  const Batch next = *source.next();
  EXPECT_EQ(resumed->step(next), trainer->step(next));
  EXPECT_EQ(weights_of(*resumed), weights_of(*trainer));
  EXPECT_THROW(restore_checkpoint(*tiny_trainer({{"optimizer", "sgd"}}), nullptr, older), Error);
}

TEST_F(CheckpointTest, ChangedSettingsComeBack) {
  auto trainer = tiny_trainer({{"warmup", 0}});
  TextSource source;
  trainer->set_f64("lr", 5e-4);
  trainer->run(source, 1);
  auto other = tiny_trainer({{"warmup", 0}});
  restore_checkpoint(*other, nullptr, save(*trainer, &source));
  other->step(*source.next());
  EXPECT_NEAR(other->metric("lr"), 5e-4, 1e-9);
}

TEST_F(CheckpointTest, SavedTwiceIsRefusedUnlessAsked) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  save(*trainer, &source);
  EXPECT_THROW(save(*trainer, &source), Error);
  save(*trainer, &source, {{"overwrite", true}});
}

TEST_F(CheckpointTest, DamageIsDataLoss) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  const std::string dir = save(*trainer, &source);
  const std::string path = join_path(dir, "trainer.json");
  std::string text = read_text(path);
  text[text.size() / 2] ^= 1;
  write_file_atomic(path, text);
  try {
    restore_checkpoint(*trainer, nullptr, dir);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_NE(error.text().find("trainer.json"), std::string::npos) << error.text();
  }
}

TEST_F(CheckpointTest, RunSavesEveryNStepsAndKeepsTheLast) {
  auto trainer = tiny_trainer({{"root", root_}, {"save_every", 2}, {"keep_last", 2}});
  TextSource source;
  std::vector<std::string> dirs;
  trainer->run(source, 7, [&](const Event& event) {
    if (event.kind() == EventKind::checkpoint)
      dirs.push_back(file_name(std::get<std::string>(*event.find("dir"))));
    return Answer::go_on;
  });
  EXPECT_EQ(dirs,
            (std::vector<std::string>{"step_000002", "step_000004", "step_000006", "step_000007"}));
  const auto kept = ckpt::list_checkpoints(root_);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].step, 6);
  EXPECT_EQ(kept[1].step, 7);
}

TEST_F(CheckpointTest, CancelledInsideOfAStepSavesTheLastWholeOne) {
  const auto twin = tiny_trainer();
  TextSource same;
  const int64_t checks = test::count_checks([&](Task* task) { twin->run(same, 3, nullptr, task); });
  auto trainer = tiny_trainer({{"root", root_}});
  TextSource source;
  test::cancel_at(checks / 2, [&](Task* task) { trainer->run(source, 100, nullptr, task); });
  EXPECT_EQ(trainer->steps_done(), 1);
  const auto latest = ckpt::latest_checkpoint(root_);
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->step, 1);
  auto other = tiny_trainer();
  TextSource resumed;
  restore_checkpoint(*other, &resumed, latest->folder);
  EXPECT_EQ(resumed.position(), 1);
  other->run(resumed, 2);
  EXPECT_EQ(weights_of(*other), weights_of(*twin));
}

TEST_F(CheckpointTest, ACancelledSaveLeavesNothing) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  const Options options(checkpoint_schema());
  const auto save_to = [&](const std::string& root) {
    return [&, root](Task* task) { save_checkpoint(*trainer, &source, root, options, task); };
  };
  const int64_t checks = test::count_checks(save_to(join_path(root_, "whole")));
  const std::string root = join_path(root_, "cut");
  for (int64_t at = 1; at <= checks; ++at) {
    test::cancel_at(at, save_to(root));
    ASSERT_TRUE(!file_exists(root) || list_directory(root).empty())
        << "check " << at << " of " << checks;
  }
}

TEST_F(CheckpointTest, CancelAfterAStepSaves) {
  auto trainer = tiny_trainer({{"root", root_}});
  TextSource source;
  Task task;
  try {
    trainer->run(
        source, 100,
        [&](const Event& event) {
          if (event.kind() == EventKind::train_step && trainer->steps_done() == 3) task.cancel();
          return Answer::go_on;
        },
        &task);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::cancelled);
  }
  const auto latest = ckpt::latest_checkpoint(root_);
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->step, trainer->steps_done());
  EXPECT_LE(latest->step, 4);
  auto other = tiny_trainer({{"root", root_}});
  restore_checkpoint(*other, nullptr, latest->folder);
  EXPECT_EQ(weights_of(*other), weights_of(*trainer));
}

// A child that saves step 2 over a root that holds step 1 is killed at its n-th file operation, for
// every n: what is left is step 1 whole, or step 2 whole.
std::atomic<int> operations_left{-1};

TEST_F(CheckpointTest, KilledAtAnyWriteLeavesAWholeCheckpoint) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  save(*trainer, &source);
  const auto first = weights_of(*trainer);
  trainer->run(source, 1);
  const auto second = weights_of(*trainer);

  int steps_seen[3] = {0, 0, 0};
  for (int n = 0; n < 400; ++n) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      operations_left = n;
      set_file_hook([](const char*, const std::string&) {
        if (operations_left.fetch_sub(1) == 0) _exit(9);
      });
      try {
        save_checkpoint(*trainer, &source, root_, options({{"keep_last", 1}, {"overwrite", true}}));
      } catch (...) {
        _exit(8);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_NE(WEXITSTATUS(status), 8) << "saving failed at operation " << n;
    const auto latest = ckpt::latest_checkpoint(root_);
    ASSERT_TRUE(latest.has_value()) << "nothing left after a kill at operation " << n;
    auto resumed = tiny_trainer();
    restore_checkpoint(*resumed, nullptr, latest->folder);
    ASSERT_EQ(weights_of(*resumed), latest->step == 1 ? first : second)
        << "after a kill at operation " << n;
    ++steps_seen[latest->step];
    if (WEXITSTATUS(status) == 0) break;
  }
  EXPECT_GT(steps_seen[1], 3);
  EXPECT_GE(steps_seen[2], 1);
}

// Three steps behind the checkpoint did not last; a sink may be added before or after restoring.
TEST_F(CheckpointTest, MetricsOfUndoneStepsAreTakenOut) {
  for (const bool before : {true, false}) {
    remove_all(root_);
    make_directories(root_);
    const std::string path = join_path(root_, "metrics.jsonl");
    TextSource source;
    auto first = tiny_trainer();
    first->add_sink("jsonl", path, Options(sink_schema()));
    first->run(source, 4);
    const std::string dir = save(*first, &source);
    first->run(source, 3);

    auto second = tiny_trainer();
    if (before) second->add_sink("jsonl", path, Options(sink_schema()));
    restore_checkpoint(*second, &source, dir);
    if (!before) second->add_sink("jsonl", path, Options(sink_schema()));
    second->run(source, 2);
    std::istringstream lines(read_text(path));
    std::vector<int64_t> steps;
    for (std::string line; std::getline(lines, line);)
      steps.push_back(parse_json(line, "line").at("step").get<int64_t>());
    EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6})) << before;
  }
}

TEST_F(CheckpointTest, ASinkThatCannotBeRewoundDoesNotUndoTheRestore) {
  make_directories(root_);
  const std::string path = join_path(root_, "metrics.jsonl");
  TextSource source;
  auto trainer = tiny_trainer();
  trainer->add_sink("jsonl", path, Options(sink_schema()));
  trainer->run(source, 2);
  const auto before = weights_of(*trainer);
  const std::string dir = save(*trainer, &source);
  trainer->run(source, 1);
  set_file_hook([](const char*, const std::string& place) {
    if (place.find("metrics.jsonl") != std::string::npos) fail(Code::resource_exhausted, "no room");
  });
  EXPECT_NO_THROW(restore_checkpoint(*trainer, &source, dir));
  EXPECT_THROW(trainer->add_sink("jsonl", path, Options(sink_schema())), Error);
  set_file_hook(nullptr);
  EXPECT_EQ(source.position(), 2);
  EXPECT_EQ(weights_of(*trainer), before);
}

TEST_F(CheckpointTest, ACancelledRestoreChangesNothing) {
  TextSource source, other;
  auto saved = tiny_trainer(), trainer = tiny_trainer();
  saved->run(source, 2);
  const std::string dir = save(*saved, &source);
  trainer->run(other, 1);
  const auto before = weights_of(*trainer);
  const int64_t checks =
      test::count_checks([&](Task* task) { restore_checkpoint(*saved, &source, dir, task); });
  for (const int64_t at : test::some_of(checks)) {
    test::cancel_at(at, [&](Task* task) { restore_checkpoint(*trainer, &other, dir, task); });
    EXPECT_EQ(weights_of(*trainer), before) << "check " << at << " of " << checks;
    EXPECT_EQ(other.position(), 1);
  }
}

TEST_F(CheckpointTest, ARunSavesWhenItsDataEnds) {
  auto trainer = tiny_trainer({{"root", root_}});
  TextSource source(4, 16, 3);
  EXPECT_THROW(trainer->run(source, 5), Error);
  const auto latest = ckpt::latest_checkpoint(root_);
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->step, 3);
}

} // namespace
} // namespace dllm::train

// Checkpoints that are written while training goes on. A lock on the run's folder holds a write
// back for as long as a test wants: a save waits for it up to 30 s.

#include "train/checkpoint/background_save.h"
#include "train/checkpoint/checkpoint_save.h"
#include "train/trainer.h"

#include "../tiny.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

namespace dllm::train {
namespace {

const Json kAveraged = {{"schedule", "cosine"}, {"steps", 12}, {"ema", 0.8}};

Options save_options(const Json& values) {
  Options made(checkpoint_schema());
  made.set_json(values);
  return made;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    if (error != nullptr) std::rethrow_exception(error);
  } catch (const std::exception& reason) {
    return reason.what();
  }
  return "no error";
}

// Fails in place of the batch of this number.
class FailingSource final : public BatchSource {
public:
  explicit FailingSource(int64_t number) : number_(number) {}
  std::optional<Batch> next() override {
    if (text_.position() + 1 == number_) fail(Code::data_loss, "the source failed");
    return text_.next();
  }
  int64_t position() const override { return text_.position(); }
  void seek(int64_t position) override { text_.seek(position); }

private:
  const int64_t number_;
  TextSource text_;
};

class BackgroundSaveTest : public testing::Test {
protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/dllm_background_" + std::to_string(getpid());
    remove_all(root_);
    make_directories(root_);
  }
  void TearDown() override {
    free_root();
    remove_all(root_);
  }
  void hold_root() { lock_.emplace(root_); }
  void free_root() { lock_.reset(); }
  // A save of this step fails: its place holds a file that no save wrote.
  void spoil(int64_t step) {
    const std::string folder = join_path(root_, ckpt::checkpoint_name(step) + ".partial");
    make_directories(folder);
    write_file_atomic(join_path(folder, "notes"), "mine");
  }
  std::string start(Trainer& trainer, const BatchSource* source) {
    return save_checkpoint(trainer, source, root_, save_options({{"wait", false}}));
  }
  static void expect_same(const std::string& got, const std::string& want,
                          const std::vector<const char*>& files) {
    for (const char* file : files)
      EXPECT_EQ(read_text(join_path(got, file)), read_text(join_path(want, file))) << file;
  }

  std::string root_;
  std::optional<FolderLock> lock_;
};

TEST_F(BackgroundSaveTest, HoldsTheMomentOfTheCallWhileTrainingGoesOn) {
  const std::string other = root_ + "_waited";
  auto plain = tiny_trainer(kAveraged), saved = tiny_trainer(kAveraged);
  TextSource plain_source, source;
  plain->run(plain_source, 4);
  saved->run(source, 4);
  const std::string want =
      save_checkpoint(*plain, &plain_source, other, save_options(Json::object()));

  hold_root();
  const std::string dir = start(*saved, &source);
  plain->run(plain_source, 4);
  saved->run(source, 4);
  EXPECT_FALSE(file_exists(dir));
  EXPECT_EQ(weights_of(*saved), weights_of(*plain));
  EXPECT_EQ(weights_of(*saved->model("ema")), weights_of(*plain->model("ema")));
  EXPECT_EQ(saved->metric("loss"), plain->metric("loss"));
  free_root();
  saved->sync();
  ASSERT_TRUE(file_exists(dir));
  expect_same(dir, want,
              {"model/config.json", "model/model.safetensors", "state/rank_000.safetensors",
               "state/layout.json", "trainer.json", "COMMIT"});
  remove_all(other);
}

// On a mesh: arrays that every rank has are copied, by several threads; the parts of others are
// joined.
TEST_F(BackgroundSaveTest, OfAMeshHoldsTheMomentOfTheCall) {
  const std::string other = root_ + "_waited";
  for (const char* mesh : {"data=2", "fsdp=2"}) {
    SCOPED_TRACE(mesh);
    const auto trainer_of = [&] {
      Options options(graph::engine_schema());
      options.set_i64("threads", 4); // two of each rank
      options.set_str("mesh", mesh);
      return std::make_unique<Trainer>(tiny_model(cpu::make_engine(options)),
                                       noise::make_objective("mdlm"), trainer_options(kAveraged));
    };
    auto plain = trainer_of(), saved = trainer_of();
    TextSource plain_source, source;
    plain->run(plain_source, 4);
    saved->run(source, 4);
    const std::string want =
        save_checkpoint(*plain, &plain_source, other, save_options(Json::object()));
    hold_root();
    const std::string dir = start(*saved, &source);
    saved->run(source, 4);
    free_root();
    saved->sync();
    expect_same(dir, want,
                {"model/model.safetensors", "state/rank_000.safetensors", "trainer.json"});
    remove_all(other);
    remove_all(dir);
  }
}

TEST_F(BackgroundSaveTest, HoldsSumsOfAnUpdateThatIsNotApplied) {
  const std::string other = root_ + "_waited";
  auto plain = tiny_trainer(), saved = tiny_trainer();
  TextSource plain_source, source;
  plain->accumulate(*plain_source.next());
  saved->accumulate(*source.next());
  const std::string want =
      save_checkpoint(*plain, &plain_source, other, save_options(Json::object()));
  hold_root();
  const std::string dir = start(*saved, &source);
  saved->accumulate(*source.next());
  saved->apply();
  free_root();
  saved->sync();
  expect_same(dir, want,
              {"model/model.safetensors", "state/rank_000.safetensors", "state/layout.json"});
  restore_checkpoint(*saved, &source, dir);
  EXPECT_EQ(saved->accumulated(), 1);
  remove_all(other);
}

TEST_F(BackgroundSaveTest, TheNextSaveWaitsForTheOneBefore) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  hold_root();
  const std::string first = start(*trainer, &source);
  trainer->run(source, 1);
  Task task;
  task.set_deadline(20);
  try {
    save_checkpoint(*trainer, &source, root_, save_options({{"wait", false}}), &task);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline_exceeded);
  }
  EXPECT_GE(trainer->metric("checkpoint_stall_seconds"), 0.02);
  free_root();
  const std::string second = start(*trainer, &source);
  EXPECT_TRUE(file_exists(join_path(first, "COMMIT")));
  trainer->sync();
  EXPECT_TRUE(file_exists(join_path(second, "COMMIT")));
}

TEST_F(BackgroundSaveTest, AFailureIsReportedOnce) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  spoil(1);
  start(*trainer, &source);
  trainer->run(source, 1); // goes on
  const std::string text = test::error_text([&] { trainer->sync(); });
  EXPECT_NE(text.find("step_000001 was not written: "), std::string::npos) << text;
  EXPECT_NE(text.find("no save wrote notes"), std::string::npos) << text;
  EXPECT_EQ(test::error_text([&] { trainer->sync(); }), "no error");

  spoil(2);
  start(*trainer, &source);
  trainer->run(source, 1);
  EXPECT_NE(test::error_text([&] { start(*trainer, &source); }).find("step_000002 was not written"),
            std::string::npos);
  start(*trainer, &source);
  trainer->sync();
  EXPECT_EQ(ckpt::latest_checkpoint(root_)->step, 3);
}

TEST_F(BackgroundSaveTest, ReleaseWaitsAndLogsWhatWasNotReported) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  const std::string dir = start(*trainer, &source);
  trainer.reset();
  EXPECT_TRUE(file_exists(join_path(dir, "COMMIT")));

  trainer = tiny_trainer();
  source.seek(0);
  trainer->run(source, 2);
  spoil(2);
  start(*trainer, &source);
  log_config(LogLevel::error, LogSink::queue);
  trainer.reset();
  const auto line = log_next();
  log_config(LogLevel::error, LogSink::none);
  ASSERT_TRUE(line.has_value());
  EXPECT_NE(line->second.find("step_000002 was not written"), std::string::npos) << line->second;
}

TEST_F(BackgroundSaveTest, ARunHasAllOnDiskWhenItEnds) {
  auto trainer =
      tiny_trainer({{"root", root_}, {"save_every", 2}, {"keep_last", 2}, {"save_wait", false}});
  TextSource source;
  std::vector<int64_t> steps;
  trainer->run(source, 7, [&](const Event& event) {
    if (event.kind() != EventKind::checkpoint) return Answer::go_on;
    const auto& dir = std::get<std::string>(*event.find("dir"));
    EXPECT_TRUE(file_exists(join_path(dir, "COMMIT"))) << dir;
    EXPECT_GT(std::get<double>(*event.find("stall_seconds")), 0.0);
    steps.push_back(std::get<int64_t>(*event.find("step")));
    return Answer::go_on;
  });
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 4, 6, 7}));
  EXPECT_GT(trainer->metric("checkpoint_stall_seconds"), 0.0);
  const auto kept = ckpt::list_checkpoints(root_);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].step, 6);
  EXPECT_EQ(kept[1].step, 7);

  auto other = tiny_trainer();
  TextSource resumed;
  restore_checkpoint(*other, &resumed, kept[1].folder);
  EXPECT_EQ(weights_of(*other), weights_of(*trainer));
}

TEST_F(BackgroundSaveTest, ARunReportsAFailedWrite) {
  auto trainer = tiny_trainer({{"root", root_}, {"save_every", 2}, {"save_wait", false}});
  TextSource source;
  spoil(2);
  const std::string text = test::error_text([&] { trainer->run(source, 3); });
  EXPECT_NE(text.find("step_000002 was not written"), std::string::npos) << text;
  EXPECT_GE(trainer->steps_done(), 2);
}

TEST_F(BackgroundSaveTest, ARunThatFailsWaitsForTheWrite) {
  auto trainer = tiny_trainer({{"root", root_}, {"save_every", 2}, {"save_wait", false}});
  FailingSource source(3);
  hold_root();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    free_root();
  });
  const std::string text = test::error_text([&] { trainer->run(source, 5); });
  other.join();
  EXPECT_EQ(text, "the source failed");
  EXPECT_TRUE(file_exists(join_path(root_, ckpt::checkpoint_name(2) + "/COMMIT")));
}

TEST_F(BackgroundSaveTest, AFullDiskLeavesTheCheckpointBefore) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 1);
  const std::string first = save_checkpoint(*trainer, &source, root_, save_options(Json::object()));
  trainer->run(source, 1);
  hold_root();
  const std::string second = start(*trainer, &source);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max}; // bytes of a file
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  free_root();
  const std::string text = test::error_text([&] { trainer->sync(); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(text.find("step_000002 was not written: "), std::string::npos) << text;
  EXPECT_NE(text.find("File too large"), std::string::npos) << text;
  EXPECT_FALSE(file_exists(second));
  EXPECT_EQ(ckpt::latest_checkpoint(root_)->folder, first);

  start(*trainer, &source); // the same step again
  trainer->sync();
  EXPECT_TRUE(file_exists(join_path(second, "COMMIT")));
}

TEST_F(BackgroundSaveTest, RestoreWaitsForTheWrite) {
  auto trainer = tiny_trainer();
  TextSource source;
  trainer->run(source, 2);
  const auto before = weights_of(*trainer);
  const std::string dir = start(*trainer, &source);
  trainer->run(source, 2);
  EXPECT_EQ(restore_checkpoint(*trainer, &source, dir).step, 2);
  EXPECT_EQ(weights_of(*trainer), before);
}

TEST_F(BackgroundSaveTest, WritesAtOnceWhereTheCopyHasNoRoom) {
  const auto engine = tiny_engine();
  Trainer trainer(tiny_model(engine), noise::make_objective("mdlm"), trainer_options());
  TextSource source;
  trainer.run(source, 1);
  engine->set_i64("memory_limit", engine->i64("memory_used") + 1000);
  const SaveStart save = start_save(trainer, &source, root_, save_options({{"wait", false}}));
  EXPECT_EQ(save.outcome, nullptr);
  EXPECT_TRUE(file_exists(join_path(save.dir, "COMMIT")));
}

TEST(BackgroundSave, GivesUpWhatTheWriteHolds) {
  BackgroundSave save;
  auto held = std::make_shared<int>(1);
  const auto outcome = save.start("a write", [held] { EXPECT_EQ(*held, 1); });
  save.wait();
  EXPECT_EQ(outcome->load(), SaveState::written);
  EXPECT_EQ(held.use_count(), 1);
  const auto failed =
      save.start("a write", [] { fail(Code::resource_exhausted, "the disk is full"); });
  EXPECT_EQ(text_of(save.take_error()), "a write was not written: the disk is full");
  EXPECT_EQ(failed->load(), SaveState::failed);
  EXPECT_EQ(save.take_error(), nullptr);
}

} // namespace
} // namespace dllm::train

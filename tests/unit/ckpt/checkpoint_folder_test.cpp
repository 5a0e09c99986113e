#include "ckpt/checkpoint/checkpoint_folder.h"

#include "ckpt/model_place.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "unit/test_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::TempFolder;

// A small checkpoint whose whole content depends on `step` and `tag`.
void save(const std::string& root, int64_t step, const KeptCheckpoints& kept,
          const std::string& tag) {
  CheckpointWriter writer(root, step);
  write_file_atomic(writer.path("trainer.json"),
                    fmt::format("{{\"step\":{},\"tag\":\"{}\"}}", step, tag));
  const auto value = static_cast<float>(step);
  write_safetensors(writer.path("model/model.safetensors"), {{"w", Tensor::scalar(value)}},
                    {{"tag", tag}});
  write_safetensors(writer.path("state/rank_000.safetensors"), {{"m", Tensor::scalar(value)}});
  writer.commit(kept);
}

// Fails the test unless every byte of the checkpoint is what save() wrote.
void expect_whole(const CheckpointEntry& entry, const std::string& tag) {
  verify_checkpoint(entry.folder, nullptr);
  EXPECT_EQ(read_text(join_path(entry.folder, "trainer.json")),
            fmt::format("{{\"step\":{},\"tag\":\"{}\"}}", entry.step, tag));
  const WeightFiles weights(*open_source(join_path(entry.folder, "model")));
  EXPECT_EQ(weights.tensor("w").as<float>()[0], static_cast<float>(entry.step));
  EXPECT_EQ(weights.metadata().at("tag"), tag);
}

TEST(CheckpointFolder, WritesListsAndKeepsTheLast) {
  TempFolder root;
  EXPECT_FALSE(latest_checkpoint(root.path()).has_value());
  EXPECT_FALSE(latest_checkpoint(root.path("nothing")).has_value());
  for (int64_t step = 1; step <= 5; ++step) save(root.path(), step * 100, 2, "x");
  EXPECT_EQ(list_directory(root.path()), (std::vector<std::string>{"step_000400", "step_000500"}));
  expect_whole(*latest_checkpoint(root.path()), "x");
  EXPECT_EQ(latest_checkpoint(root.path())->step, 500);
  save(root.path(), 1234567, 0, "x");
  EXPECT_EQ(list_checkpoints(root.path()).size(), 3u);
  EXPECT_EQ(latest_checkpoint(root.path())->folder, root.path("step_1234567"));
}

TEST(CheckpointFolder, ReplacesTheSameStep) {
  TempFolder root;
  save(root.path(), 7, 1, "old");
  save(root.path(), 7, 1, "new");
  EXPECT_EQ(list_directory(root.path()), std::vector<std::string>{"step_000007"});
  expect_whole(*latest_checkpoint(root.path()), "new");
}

TEST(CheckpointFolder, KeepsWhatItWroteWhenSetBack) {
  TempFolder root;
  save(root.path(), 100, 3, "x");
  save(root.path(), 200, 3, "x");
  save(root.path(), 150, 1, "x");
  EXPECT_EQ(list_directory(root.path()), std::vector<std::string>{"step_000150"});
}

TEST(CheckpointFolder, KeepsTheNamedSteps) {
  TempFolder root;
  for (const int64_t step : {100, 200, 300}) save(root.path(), step, 0, "x");
  save(root.path(), 400, {1, {100, 300, 700}}, "x");
  EXPECT_EQ(list_directory(root.path()),
            (std::vector<std::string>{"step_000100", "step_000300", "step_000400"}));
}

TEST(CheckpointFolder, PassesOverWhatIsNotCommitted) {
  TempFolder root;
  save(root.path(), 1, 0, "x");
  save(root.path(), 2, 0, "x");
  save(root.path(), 3, 0, "x");
  save(root.path(), 4, 0, "x");
  remove_all(root.path("step_000004/COMMIT"));
  write_file_atomic(root.path("step_000003/COMMIT"), "{");
  write_file_atomic(root.path("step_000002/trainer.json"), "shorter");
  make_directories(root.path("step_000009.partial"));
  make_directories(root.path("step_x"));
  EXPECT_EQ(latest_checkpoint(root.path())->step, 1);
  rename_path(root.path("step_000001"), root.path("step_000008"));
  EXPECT_FALSE(latest_checkpoint(root.path()).has_value()) << "COMMIT says step 1, the name says 8";
  EXPECT_EQ(open_checkpoint(root.path("step_000008")).step, 1);
}

TEST(CheckpointFolder, ErrorsNameFileExpectedAndFound) {
  TempFolder root;
  save(root.path(), 1, 0, "x");
  const std::string folder = root.path("step_000001");
  std::string text = read_text(join_path(folder, "trainer.json"));
  text[0] = '[';
  write_file_atomic(join_path(folder, "trainer.json"), text);
  open_checkpoint(folder); // sizes still fit
  expect_error(Code::data_loss, "trainer.json has the checksum",
               [&] { verify_checkpoint(folder, nullptr); });
  write_file_atomic(join_path(folder, "trainer.json"), text + "!");
  expect_error(Code::data_loss,
               fmt::format("trainer.json has {} bytes, expected {}", text.size() + 1, text.size()),
               [&] { open_checkpoint(folder); });
  remove_all(join_path(folder, "trainer.json"));
  expect_error(Code::data_loss, "trainer.json is missing", [&] { open_checkpoint(folder); });
  expect_error(Code::not_found, "holds no COMMIT", [&] { open_checkpoint(root.path()); });
}

TEST(CheckpointFolder, WriterRefusesNamesAndCleansUp) {
  TempFolder root;
  expect_error(Code::invalid_argument, "must not be negative",
               [&] { CheckpointWriter writer(root.path(), -1); });
  {
    CheckpointWriter writer(root.path(), 1);
    for (const char* name : {"../x", "/x", "", "COMMIT", "a//b"}) {
      expect_error(Code::invalid_argument, "cannot be the name of a file in a checkpoint",
                   [&] { writer.path(name); });
    }
    write_file_atomic(writer.path("x"), "x");
  }
  EXPECT_TRUE(list_directory(root.path()).empty());
  CheckpointWriter writer(root.path(), 1);
  write_file_atomic(writer.path("x"), "x");
  Task task;
  task.cancel();
  expect_error(Code::cancelled, "cancelled", [&] { writer.commit(0, &task); });
  EXPECT_FALSE(latest_checkpoint(root.path()).has_value());
  writer.commit(0);
  EXPECT_EQ(latest_checkpoint(root.path())->step, 1);
  expect_error(Code::failed_precondition, "committed already", [&] { writer.commit(0); });
}

// ---- what no save wrote stays

TEST(CheckpointFolder, CleansItsOwnLeftoversAndNoOthers) {
  TempFolder root;
  make_directories(root.path("step_000300.partial/notes"));
  write_file_atomic(root.path("step_000300.partial/notes/thesis.txt"), "mine");
  make_directories(root.path("step_ideas.partial"));
  make_directories(root.path("elsewhere"));
  write_file_atomic(root.path("elsewhere/COMMIT"), "mine");
  ASSERT_EQ(::symlink(root.path("elsewhere").c_str(), root.path("step_000500.trash").c_str()), 0);
  make_directories(root.path("step_000400.partial")); // killed before its first file
  make_directories(root.path("step_000600.partial"));
  write_file_atomic(root.path("step_000600.partial/COMMIT.partial"), "");
  write_file_atomic(root.path("step_000600.partial/model"), "half");
  save(root.path(), 100, 1, "x");
  EXPECT_EQ(list_directory(root.path()),
            (std::vector<std::string>{"elsewhere", "step_000100", "step_000300.partial",
                                      "step_000500.trash", "step_ideas.partial"}));
  EXPECT_EQ(read_text(root.path("step_000300.partial/notes/thesis.txt")), "mine");
  EXPECT_EQ(read_text(root.path("elsewhere/COMMIT")), "mine");
  expect_error(Code::already_exists,
               "step_000300.partial is not replaced: no save wrote notes/thesis.txt",
               [&] { save(root.path(), 300, 1, "x"); });
}

TEST(CheckpointFolder, AFolderWithOtherFilesIsNeitherReplacedNorDeleted) {
  TempFolder root;
  save(root.path(), 1, 0, "old");
  write_file_atomic(root.path("step_000001/plots.txt"), "mine");
  expect_error(Code::already_exists, "step_000001 is not replaced: no save wrote plots.txt",
               [&] { save(root.path(), 1, 0, "new"); });
  save(root.path(), 2, 1, "x");
  save(root.path(), 3, 1, "x");
  EXPECT_EQ(list_directory(root.path()), (std::vector<std::string>{"step_000001", "step_000003"}));
  EXPECT_EQ(read_text(root.path("step_000001/plots.txt")), "mine");
  expect_whole({1, root.path("step_000001")}, "old");
  make_directories(root.path("step_000009"));
  write_file_atomic(root.path("step_000009/data"), "mine");
  expect_error(Code::already_exists, "no save wrote data", [&] { save(root.path(), 9, 0, "x"); });
}

TEST(CheckpointFolder, NoLinkLeadsOutOfACheckpoint) {
  for (const char* name : {"model/model.safetensors", "COMMIT", "model"}) {
    TempFolder root, outside;
    save(root.path(), 1, 0, "x");
    const std::string inside = join_path(root.path("step_000001"), name);
    rename_path(inside, outside.path("moved"));
    ASSERT_EQ(::symlink(outside.path("moved").c_str(), inside.c_str()), 0);
    expect_error(Code::data_loss, std::string(name) + " is a symbolic link",
                 [&] { open_checkpoint(root.path("step_000001")); });
    EXPECT_FALSE(latest_checkpoint(root.path()).has_value());
    // Neither a clean-up nor a save in its place goes through the link.
    EXPECT_THROW(save(root.path(), 1, 1, "y"), Error);
    EXPECT_TRUE(file_exists(outside.path("moved"))) << name;
    if (std::string(name) == "model") {
      EXPECT_TRUE(file_exists(outside.path("moved/model.safetensors")));
    }
  }
}

// ---- killed at every change of the disk

std::atomic<int> operations_left{-1};

void die_at_zero(const char*, const std::string&) {
  if (operations_left.fetch_sub(1) == 0) ::kill(::getpid(), SIGKILL);
}

// Runs save() in a child that is killed right before operation n. False when it ended by itself.
bool killed_at(int n, const std::string& root, int64_t step, int64_t keep_last,
               const std::string& tag) {
  const pid_t child = ::fork();
  if (child == 0) {
    operations_left = n;
    set_file_hook(die_at_zero);
    try {
      save(root, step, keep_last, tag);
    } catch (...) {
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return true;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  return false;
}

TEST(CheckpointKill, AtEveryOperationLeavesTheFormerOrTheNew) {
  int operations = 0;
  bool saw_old = false, saw_new = false;
  for (bool killed = true; killed; ++operations) {
    TempFolder root(true);
    save(root.path(), 100, 2, "a");
    save(root.path(), 200, 2, "b");
    killed = killed_at(operations, root.path(), 300, 2, "c");
    const auto latest = latest_checkpoint(root.path());
    ASSERT_TRUE(latest.has_value()) << operations;
    ASSERT_TRUE(latest->step == 200 || latest->step == 300) << operations;
    expect_whole(*latest, latest->step == 200 ? "b" : "c");
    (latest->step == 200 ? saw_old : saw_new) = true;
    save(root.path(), 400, 2, "d"); // the next writer cleans what is left
    expect_whole(*latest_checkpoint(root.path()), "d");
    const auto names = list_directory(root.path());
    EXPECT_EQ(names.size(), 2u) << operations;
    EXPECT_EQ(names.back(), "step_000400");
  }
  EXPECT_TRUE(saw_old && saw_new);
  EXPECT_GT(operations, 25) << "the hook should see every write, sync, rename and remove";
  RecordProperty("operations", operations);
}

TEST(CheckpointKill, WhileReplacingTheSameStep) {
  for (int operations = 0;; ++operations) {
    TempFolder root(true);
    save(root.path(), 100, 1, "old");
    const bool killed = killed_at(operations, root.path(), 100, 1, "new");
    const auto latest = latest_checkpoint(root.path());
    ASSERT_TRUE(latest.has_value()) << operations;
    const bool is_new =
        read_text(join_path(latest->folder, "trainer.json")).find("new") != std::string::npos;
    expect_whole(*latest, is_new ? "new" : "old");
    if (!killed) {
      EXPECT_TRUE(is_new);
      break;
    }
  }
}

// A training that keeps few checkpoints may remove one while it is read.
TEST(ModelPlace, ACheckpointThatVanishesIsReadAgain) {
  const test::TempFolder folder;
  const std::string first = folder.path("step_000001");
  std::filesystem::create_directory(first);
  int calls = 0;
  read_latest(folder.path(), [&] {
    if (++calls > 1) return;
    std::filesystem::remove(first);
    fail(Code::not_found, "there is no file {}", first);
  });
  EXPECT_EQ(calls, 2);
  calls = 0;
  std::filesystem::create_directory(first);
  const auto read = [&] {
    ++calls;
    fail(Code::data_loss, "the file is damaged");
  };
  EXPECT_THROW(read_latest(folder.path(), read), Error);
  EXPECT_THROW(read_latest(folder.path("none"), read), Error);
  EXPECT_EQ(calls, 2); // once each: nothing was removed
}

} // namespace
} // namespace dllm::ckpt

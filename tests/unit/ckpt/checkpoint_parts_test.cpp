// A checkpoint that several processes write: threads stand for them here.

#include "ckpt/checkpoint/checkpoint_parts.h"

#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "unit/test_files.h"

#include <functional>
#include <thread>
#include <vector>

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::TempFolder;

constexpr int64_t kProcesses = 3;

// Process `process` writes one tensor of its own.
void write_own(const std::string& folder, int64_t process) {
  write_safetensors(join_path(folder, fmt::format("state/rank_{:03}.safetensors", process)),
                    {{"m", Tensor::scalar(static_cast<float>(process))}});
}

void finish(CheckpointPart& part, int64_t process) {
  write_own(part.folder(), process);
  part.finish({fmt::format("state/rank_{:03}.safetensors", process)});
}

// Saves step 7; work(part, process) runs on a thread for each process after the first.
std::string save(const std::string& root,
                 const std::function<void(CheckpointPart& part, int64_t process)>& work) {
  CheckpointWriter writer(root, 7);
  const std::string id = open_parts(writer, kProcesses);
  make_directories(writer.folder() + "/state");
  std::vector<std::thread> others;
  for (int64_t process = 1; process < kProcesses; ++process) {
    others.emplace_back([&, process] {
      ASSERT_TRUE(sees_part(partial_folder(root, 7), process, id));
      CheckpointPart part(partial_folder(root, 7), process, id);
      work(part, process);
    });
  }
  write_own(writer.folder(), 0);
  std::exception_ptr failure;
  std::string folder;
  try {
    folder = writer.commit(0, nullptr, wait_for_parts(writer, kProcesses, id));
  } catch (...) {
    failure = std::current_exception();
  }
  for (std::thread& other : others) other.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  return folder;
}

TEST(CheckpointParts, AreOneCheckpoint) {
  TempFolder root;
  const std::string folder = save(root.path(), finish);
  verify_checkpoint(folder, nullptr);
  EXPECT_EQ(list_directory(folder), (std::vector<std::string>{"COMMIT", "state"})); // no marks
  for (int64_t process = 0; process < kProcesses; ++process) {
    const std::string path = folder + fmt::format("/state/rank_{:03}.safetensors", process);
    EXPECT_EQ(SafetensorsFile(open_content(path), path).tensor("m").as<float>()[0],
              static_cast<float>(process));
  }
  const Commit commit = open_checkpoint(folder);
  ASSERT_EQ(commit.files.size(), static_cast<size_t>(kProcesses));
  EXPECT_EQ(commit.files[2].path, "state/rank_002.safetensors");
}

TEST(CheckpointParts, ThatFailAreNamedAndNothingIsLeft) {
  TempFolder root;
  const auto fails = [](CheckpointPart& part, int64_t process) {
    if (process == 1) return finish(part, process);
    part.fail(Error(Code::resource_exhausted, "the disk is full", "make room"));
  };
  expect_error(Code::resource_exhausted, "rank 2: the disk is full",
               [&] { save(root.path(), fails); });
  EXPECT_TRUE(list_directory(root.path()).empty());
}

TEST(CheckpointParts, ThatAreGivenUpAreAFailure) {
  TempFolder root;
  const auto leaves = [](CheckpointPart& part, int64_t process) {
    if (process == 2) finish(part, process);
  };
  expect_error(Code::aborted, "rank 1", [&] { save(root.path(), leaves); });
  EXPECT_TRUE(list_directory(root.path()).empty());
}

// A file that is not as its process described it.
TEST(CheckpointParts, ThatShrinkAreDataLoss) {
  TempFolder root;
  CheckpointWriter writer(root.path(), 7);
  const std::string id = open_parts(writer, 2);
  {
    make_directories(writer.folder() + "/state");
    CheckpointPart part(writer.folder(), 1, id);
    finish(part, 1);
  }
  write_file_atomic(writer.folder() + "/state/rank_001.safetensors", "short");
  const std::vector<CommitEntry> parts = wait_for_parts(writer, 2, id);
  expect_error(Code::data_loss, "has 5 bytes", [&] { writer.commit(0, nullptr, parts); });
}

// What a process of a former job still writes does not end the part of this one.
TEST(CheckpointParts, OfAnotherSaveAreLeftAlone) {
  TempFolder root;
  CheckpointWriter writer(root.path(), 7);
  const std::string id = open_parts(writer, 2);
  make_directories(writer.folder() + "/state");
  {
    CheckpointPart late(writer.folder(), 1, "0123456789abcdef");
    finish(late, 1);
  }
  EXPECT_TRUE(sees_part(writer.folder(), 1, id));
  CheckpointPart part(writer.folder(), 1, id);
  finish(part, 1);
  EXPECT_EQ(wait_for_parts(writer, 2, id).size(), 1u);
}

TEST(CheckpointParts, ThatNeverEndAreWaitedForUntilTheTaskEnds) {
  TempFolder root;
  CheckpointWriter writer(root.path(), 7);
  const std::string id = open_parts(writer, 2);
  Task task;
  std::thread canceller([&] { task.cancel(); });
  expect_error(Code::cancelled, "", [&] { wait_for_parts(writer, 2, id, &task); });
  canceller.join();
}

} // namespace
} // namespace dllm::ckpt

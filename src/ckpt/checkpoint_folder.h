#pragma once
// Checkpoints of a run: folders step_000500 under a root. One is written as step_000500.partial,
// made durable, sealed by COMMIT and renamed in one step, so that a kill at any moment leaves the
// former checkpoint or the new one.

#include "base/folder_lock.h"
#include "base/task.h"
#include "ckpt/commit_file.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::ckpt {

// Writes one checkpoint. The constructor waits until no other writer of `root`, in any process, is left (FolderLock),
// then removes what a killed one left (step_000500.partial, step_000500.trash) and nothing else. It fails with
// already_exists when the place of this step holds a file that no save wrote. Without commit() the destructor removes
// everything again. Not synchronised.
class CheckpointWriter {
public:
  CheckpointWriter(std::string root, int64_t step, const Task* task = nullptr);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Where to write the file `relative` ("model/config.json"); its folders are made. Use
  // base/files.h or the writers of this folder. A name that leaves the checkpoint is
  // invalid_argument.
  std::string path(const std::string& relative) const;
  // The folder while it is being written, for code that fills a whole folder.
  const std::string& folder() const { return partial_; }
  // Syncs every file and folder, writes COMMIT and renames. A committed checkpoint of the same step
  // is replaced. Then deletes all but the newest `keep_last` committed checkpoints of the root (0
  // or less keeps all; one that holds other files is kept). Returns the final folder. A cancelled task leaves the root as it was.
  std::string commit(int64_t keep_last, const Task* task = nullptr);

private:
  std::string root_;
  std::unique_ptr<FolderLock> lock_;
  std::string final_;
  std::string partial_;
  int64_t step_;
  bool committed_ = false;
};

std::string checkpoint_name(int64_t step); // "step_000500"

// Reads COMMIT and compares the size of every file. data_loss names the file, expected and found,
// or a symbolic link inside the folder; not_found when there is no COMMIT.
Commit open_checkpoint(const std::string& folder);
// open_checkpoint, and reads every byte to compare the checksums.
void verify_checkpoint(const std::string& folder, Task* task);

struct CheckpointEntry {
  int64_t step = 0;
  std::string folder;
};
// Valid checkpoints of `root`, oldest first. Anything without a valid COMMIT is passed over. No
// root: none.
std::vector<CheckpointEntry> list_checkpoints(const std::string& root);
std::optional<CheckpointEntry> latest_checkpoint(const std::string& root);

} // namespace dllm::ckpt

#pragma once
// check_folder() reports what is wrong with each file of a checkpoint. open_checkpoint() and
// verify_checkpoint() stop at the first fault; check_folder() shows what is left.

#include "base/json.h"
#include "base/task.h"
#include "ckpt/checkpoint/checkpoint_folder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::ckpt {

struct CheckedFile {
  CommitEntry entry; // the entry of the file in COMMIT
  std::string fault; // "has 12 bytes, 16 expected", or "" if the file agrees with COMMIT
};

struct CheckedFolder {
  int64_t step = 0;
  std::vector<CheckedFile> files;    // sorted by path
  std::vector<std::string> unlisted; // files that COMMIT does not name; empty in an object store
};

// Reads every byte and returns the faults of all files. Fails with not_found without a COMMIT, with
// data_loss for a damaged COMMIT. Fails when the task is cancelled or its time is over.
CheckedFolder check_folder(const std::string& folder, Task* task);
// Returns {"step", "files": [{"path", "size", "crc32", "fault"}], "unlisted": [path]}.
Json to_json(const CheckedFolder& folder);

} // namespace dllm::ckpt

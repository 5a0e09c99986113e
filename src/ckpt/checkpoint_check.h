#pragma once
// What is wrong with each file of a checkpoint. open_checkpoint and verify_checkpoint stop at the
// first fault; this goes on, for people who want to know what is left.

#include "base/json.h"
#include "base/task.h"
#include "ckpt/checkpoint_folder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::ckpt {

struct CheckedFile {
  CommitEntry entry; // as COMMIT has it
  std::string fault; // "has 12 bytes, 16 expected"; "": the file is as COMMIT says
};

struct CheckedFolder {
  int64_t step = 0;
  std::vector<CheckedFile> files;    // in the order of their paths
  std::vector<std::string> unlisted; // files of the folder that COMMIT does not name
};

// Reads every byte. Fails with not_found without a COMMIT, with data_loss for one that cannot be
// read, and when the task ends; every fault of a file is in the result.
CheckedFolder check_folder(const std::string& folder, Task* task);
// {"step", "files": [{"path", "size", "crc32", "fault"}], "unlisted": [path]}
Json to_json(const CheckedFolder& folder);

} // namespace dllm::ckpt

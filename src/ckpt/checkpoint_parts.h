#pragma once
// One checkpoint that several processes write into a folder they all see. The first holds the CheckpointWriter; each of the
// others writes files of its own there and describes them, and the first waits for all before it commits. They speak through
// files of the folder, so that the writing may go on in the background, apart from what the processes exchange in a step:
//   part_003.open    made by the first process: process 3 has not ended yet. It holds the id of this save.
//   part_003.done    id, and path, size and CRC-32 of each file of process 3, which are durable
//   part_003.failed  id, and why
// None of them is left in a checkpoint.

#include "base/error.h"
#include "base/task.h"
#include "ckpt/checkpoint_folder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::ckpt {

// For the first process: makes the marks of processes 1 .. processes-1 in the folder of a writer; returns the id of the
// save, a new one each time: what a process of a former job still writes there is not taken for a part.
std::string open_parts(const CheckpointWriter& writer, int64_t processes);
// Waits until all have ended and removes the marks. Fails as the first of them did, with its number.
std::vector<CommitEntry> wait_for_parts(const CheckpointWriter& writer, int64_t processes,
                                        const std::string& id, const Task* task = nullptr);

// For another process. True when it sees the mark that the first one made; waits a moment for it, as a network file system
// may show it late.
bool sees_part(const std::string& folder, int64_t process, const std::string& id);

// The part of one process. The destructor of one that neither finished nor failed reports a failure. Not synchronised.
class CheckpointPart {
public:
  CheckpointPart(std::string folder, int64_t process, std::string id);
  ~CheckpointPart();
  CheckpointPart(const CheckpointPart&) = delete;
  CheckpointPart& operator=(const CheckpointPart&) = delete;

  const std::string& folder() const { return folder_; }
  // files: what was written, relative to the folder.
  void finish(const std::vector<std::string>& files, const Task* task = nullptr);
  void fail(const Error& reason) noexcept;

private:
  void end(const char* how, const std::string& content);

  std::string folder_;
  int64_t process_;
  std::string id_;
  bool ended_ = false;
};

} // namespace dllm::ckpt

#pragma once
// Several processes can write one checkpoint into a folder that they all see. The first process has
// the CheckpointWriter. Each other process writes and describes files of its own, and the first
// process waits for all before it commits. The processes exchange messages as files of the folder.
// So a save can run in the background, independent of the messages of a training step:
//   part_003.open    the id of the save; the first process writes it, process 3 removes it last
//   part_003.done    the id, and path, size and CRC-32 of each file of process 3, which are durable
//   part_003.failed  the id and the error of process 3
// A finished checkpoint contains none of these files.

#include "base/error.h"
#include "base/task.h"
#include "ckpt/checkpoint/checkpoint_folder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::ckpt {

// The first process calls open_parts() and wait_for_parts().

// Writes part_NNN.open for processes 1 .. processes - 1 and returns the id of the save. The id is
// new for each save, so files from a process of a former job are ignored.
std::string open_parts(const CheckpointWriter& writer, int64_t processes);
// Waits until all processes have ended and removes their messages. Returns the described files.
// Fails with the error of the first failed process and names its rank.
std::vector<CommitEntry> wait_for_parts(const CheckpointWriter& writer, int64_t processes,
                                        const std::string& id, const Task* task = nullptr);

// Returns true if this process sees its file part_NNN.open of save `id`. Waits up to 5 seconds,
// because a network file system may show the file late.
bool sees_part(const std::string& folder, int64_t process, const std::string& id);

// The part of one other process. The destructor reports a failure if neither finish() nor fail()
// was called. Not synchronised.
class CheckpointPart {
public:
  CheckpointPart(std::string folder, int64_t process, std::string id);
  ~CheckpointPart();
  CheckpointPart(const CheckpointPart&) = delete;
  CheckpointPart& operator=(const CheckpointPart&) = delete;

  const std::string& folder() const { return folder_; }
  // Makes the files durable and describes them. files: paths relative to the folder.
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

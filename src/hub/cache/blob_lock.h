#pragma once
// Lets one process at a time load a blob, also among the processes that use huggingface_hub.

#include "base/task.h"

#include <string>

namespace dllm::hub {

// A lock of flock on a file of .locks, as filelock of Python takes it. The system releases the lock
// of a killed process.
class BlobLock {
public:
  // Waits until no other process holds the lock, and checks the task while it waits. A line of the
  // log then names `what`. On a file system without flock nothing is locked.
  BlobLock(const std::string& path, const std::string& what, const Task* task);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

private:
  bool take(); // returns false while another process holds the lock
  void close();

  std::string path_;
  int fd_ = -1;
};

} // namespace dllm::hub

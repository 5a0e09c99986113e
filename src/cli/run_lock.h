#pragma once
// One training at a time in a run's folder.

#include <string>

namespace dllm::cli {

// Holds folder/LOCK, with this process's number in it, until destroyed. The system lets go of it when the process
// ends in any way, so that a killed run blocks nothing.
class RunLock {
 public:
  // Makes the folder when it is not there. Throws Failure when another process holds the lock, naming it.
  explicit RunLock(const std::string& folder);
  ~RunLock();  // removes a folder that was created here and is still empty
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  bool take();  // false: the file was removed meanwhile

  std::string folder_, path_;
  bool made_folder_ = false;
  int fd_ = -1;
};

}  // namespace dllm::cli

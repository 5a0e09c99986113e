#pragma once
// An advisory lock on a folder (flock): of two saves into one place the second waits for the first.

#include <string>

namespace dllm {

class Task;

class FolderLock {
 public:
  // Waits until no other holder in this or another process is left, and checks the task meanwhile. unavailable after
  // 30 seconds. A folder that cannot be locked (a file system without flock, one we may not read) is not locked.
  explicit FolderLock(const std::string& folder, const Task* task = nullptr);
  ~FolderLock();  // a killed process gives its locks up as well
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  // False when the former holder renamed or removed the folder: what is at its path now, if anything, is not locked.
  bool at_path() const;

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace dllm

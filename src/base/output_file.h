#pragma once
// Writing that cannot end the process, files that grow by whole records, and a lock for folders that are written to.

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace dllm {

// write(2), but a file beyond the size limit is EFBIG and a closed pipe EPIPE where the system would send SIGXFSZ or
// SIGPIPE. Signals belong to the host: they are held back in this thread alone, and only the one that this write
// caused is taken.
ssize_t write_without_signal(int fd, const void* data, size_t size);

// A file that records are appended to. Not synchronised.
class AppendFile {
public:
  // append: what is there stays; else it is emptied. Takes a regular file or a device (/dev/stderr), no pipe: one
  // that nothing reads would hang the writer. permission_denied, not_found, invalid_argument.
  AppendFile(const std::string& path, bool append);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& path() const { return path_; }
  // Writes the front of `data` and returns how many bytes were written: all of them, or less with errno set.
  size_t write(std::string_view data);

private:
  std::string path_;
  int fd_ = -1;
};

// An advisory lock on a folder (flock): of two saves into one place the second waits for the first.

class Task;

class FolderLock {
public:
  // Waits until no other holder in this or another process is left, and checks the task meanwhile. unavailable after
  // 30 seconds. A folder that cannot be locked (a file system without flock, one we may not read) is not locked.
  explicit FolderLock(const std::string& folder, const Task* task = nullptr);
  ~FolderLock(); // a killed process gives its locks up as well
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  // False when the former holder renamed or removed the folder: what is at its path now, if anything, is not locked.
  bool at_path() const;

private:
  std::string path_;
  int fd_ = -1;
};

} // namespace dllm

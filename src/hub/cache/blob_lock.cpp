#include "hub/cache/blob_lock.h"

#include "base/error.h"
#include "base/files.h"
#include "base/http/retry.h"
#include "base/log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dllm::hub {

BlobLock::BlobLock(const std::string& path, const std::string& what, const Task* task)
    : path_(path) {
  constexpr double kPause = 0.05;
  make_directories(parent_path(path_));
  bool is_said = false;
  while (!take()) {
    if (!is_said) log(LogLevel::warn, "another pull loads {}: this one waits for it", what);
    is_said = true;
    http::wait(kPause, task);
  }
}

BlobLock::~BlobLock() {
  if (fd_ >= 0) ::flock(fd_, LOCK_UN); // a forked child may have the descriptor
  close();
}

void BlobLock::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool BlobLock::take() {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
  if (fd_ < 0) fail_errno("create", path_);
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return true; // no flock here
    close();
    return false;
  }
  // huggingface_hub removes the file when it releases the lock. A lock on a removed file excludes
  // no other process.
  struct stat there {
  }, mine{};
  const bool is_there = ::stat(path_.c_str(), &there) == 0 && ::fstat(fd_, &mine) == 0 &&
                        there.st_dev == mine.st_dev && there.st_ino == mine.st_ino;
  if (!is_there) close();
  return is_there;
}

} // namespace dllm::hub

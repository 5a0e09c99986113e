#include "base/folder_lock.h"

#include "base/error.h"
#include "base/task.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace dllm {
namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kPause{5};

}  // namespace

FolderLock::FolderLock(const std::string& folder, const Task* task) : path_(folder) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  try {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return;
      check_task(task);
      if (std::chrono::steady_clock::now() > give_up) {
        fail_with_hint("save elsewhere, or wait until the other save has ended", Code::unavailable,
                       "{} is in use: another save has been writing there for more than {} seconds", path_,
                       kPatience.count());
      }
      std::this_thread::sleep_for(kPause);
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  ::flock(fd_, LOCK_UN);  // a child that was forked meanwhile has the descriptor as well
  ::close(fd_);
}

bool FolderLock::at_path() const {
  struct stat there {}, mine {};
  if (::stat(path_.c_str(), &there) != 0) return false;
  if (fd_ < 0 || ::fstat(fd_, &mine) != 0) return true;
  return there.st_dev == mine.st_dev && there.st_ino == mine.st_ino;
}

}  // namespace dllm

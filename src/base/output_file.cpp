#include "base/files.h"

#include "base/error.h"
#include "base/store/address.h"
#include "base/task.h"
#include "base/write_at.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <thread>

namespace dllm {

namespace {

// Calls write() -> ssize_t with the signals blocked that a write may cause.
template <class Write> ssize_t without_signal(const Write& write) {
  sigset_t both, before, mask;
  sigemptyset(&both);
  sigaddset(&both, SIGXFSZ);
  sigaddset(&both, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &both, &mask);
  sigpending(&before); // pending signals of the host, which must stay pending
  const ssize_t put = write();
  const int number = errno;
  const int sent = put >= 0 ? 0 : number == EFBIG ? SIGXFSZ : number == EPIPE ? SIGPIPE : 0;
  if (sent != 0 && sigismember(&before, sent) == 0) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, sent);
    const timespec at_once{};
    while (sigtimedwait(&one, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  errno = number;
  return put;
}

} // namespace

ssize_t write_without_signal(int fd, const void* data, size_t size) {
  return without_signal([&] { return ::write(fd, data, size); });
}

ssize_t write_at_without_signal(int fd, const void* data, size_t size, int64_t at) {
  return without_signal([&] { return ::pwrite(fd, data, size, at); });
}

AppendFile::AppendFile(const std::string& path, bool append) : path_(path) {
  if (is_store_path(path)) {
    fail_with_hint("name a local file", Code::unimplemented,
                   "cannot write {}: objects in a store do not grow", path);
  }
  // With O_NONBLOCK, opening a pipe without a reader fails with ENXIO instead of blocking.
  fd_ =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (fd_ < 0 && errno != ENXIO) fail_errno("write", path);
  struct stat info {};
  const bool known = fd_ >= 0 && ::fstat(fd_, &info) == 0;
  if (!known || !(S_ISREG(info.st_mode) || S_ISCHR(info.st_mode))) {
    if (fd_ >= 0) ::close(fd_);
    fail_with_hint("name a file", Code::invalid_argument,
                   "cannot write {}: it is a pipe or a socket", path);
  }
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
  if (!append && S_ISREG(info.st_mode) && ::ftruncate(fd_, 0) != 0) {
    const int number = errno;
    ::close(fd_);
    errno = number;
    fail_errno("write", path);
  }
}

AppendFile::~AppendFile() {
  ::close(fd_);
}

size_t AppendFile::write(std::string_view data) {
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t put = write_without_signal(fd_, data.data() + done, data.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) break;
    done += static_cast<size_t>(put);
  }
  return done;
}

namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kPause{5};

} // namespace

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
                       "{} is in use: another save has been writing there for more than {} seconds",
                       path_, kPatience.count());
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
  ::flock(fd_, LOCK_UN); // closing alone is not enough: a forked child may have the descriptor
  ::close(fd_);
}

bool FolderLock::at_path() const {
  struct stat there {
  }, mine{};
  if (::stat(path_.c_str(), &there) != 0) return false;
  if (fd_ < 0 || ::fstat(fd_, &mine) != 0) return true;
  return there.st_dev == mine.st_dev && there.st_ino == mine.st_ino;
}

} // namespace dllm

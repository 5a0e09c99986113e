// This file handles signals, standard output, and the lock of a run folder.

#include "process.h"

#include "../command.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace dllm::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

dllm_task* interrupted_task = nullptr; // the task that a signal cancels
volatile std::sig_atomic_t last_signal = SIGINT;
volatile std::sig_atomic_t is_cancelled = 0; // by a signal, within the scope of this Interrupt
std::atomic<int64_t> first_at{-1};           // milliseconds of the last signal that cancelled

// `timeout` sends its signal to the child and then to the child's group; both signals are one
// request.
constexpr int64_t kSameSignal = 1000; // milliseconds

int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now); // may be called by a handler
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

void on_interrupt(int number) {
  const int64_t now = milliseconds(), first = first_at.load(std::memory_order_relaxed);
  if (first >= 0 && now - first < kSameSignal) return;
  if (interrupted_task != nullptr && is_cancelled == 0) {
    is_cancelled = 1;
    last_signal = number;
    first_at.store(now, std::memory_order_relaxed);
    dllm_task_cancel(interrupted_task);
    return;
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

} // namespace

Interrupt::Interrupt(dllm_task* task) : before_(interrupted_task) {
  interrupted_task = task;
  is_cancelled = 0;
  for (int i = 0; i < kCount; ++i) {
    handlers_before_[i] = std::signal(kSignals[i], on_interrupt);
    // Under nohup SIGHUP stays ignored. (A shell's background job ignores SIGINT as well, but a
    // SIGINT that a user sends is meant.)
    if (kSignals[i] == SIGHUP && handlers_before_[i] == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  }
}

Interrupt::~Interrupt() {
  // The second signal of `timeout` may come after the first has ended the work.
  for (int i = 0; i < kCount; ++i) {
    const bool waits = is_cancelled != 0 && handlers_before_[i] == SIG_DFL;
    std::signal(kSignals[i], waits ? on_interrupt : handlers_before_[i]);
  }
  interrupted_task = before_;
}

int interrupted_code() {
  return 128 + static_cast<int>(last_signal);
}

namespace {

volatile std::sig_atomic_t reader_went_away = 0;

void on_broken_pipe(int) {
  reader_went_away = 1;
}

void on_size_limit(int) {}

} // namespace

// A closed pipe and a file above the size limit are errors of the failing write. Handlers are used
// in place of SIG_IGN, because programs that this one starts then have the default actions.
void watch_standard_output() {
  struct sigaction action = {};
  action.sa_handler = on_broken_pipe;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
  action.sa_handler = on_size_limit;
  sigaction(SIGXFSZ, &action, nullptr);
}

int finish_standard_output(int code) {
  errno = 0;
  const bool failed_before = std::ferror(stdout) != 0;
  const bool failed = std::fflush(stdout) != 0 || failed_before;
  if (!failed) return code;
  if (reader_went_away == 0) {
    std::fprintf(stderr, "dllm: cannot write standard output%s%s\n", errno != 0 ? ": " : "",
                 errno != 0 ? std::strerror(errno) : "");
  }
  return code == 0 ? kFailed : code;
}

namespace {

namespace fs = std::filesystem;

std::string first_line(int fd) {
  char text[32] = {};
  const ssize_t size = pread(fd, text, sizeof text - 1, 0);
  const std::string all(text, size > 0 ? static_cast<size_t>(size) : 0);
  return all.substr(0, all.find('\n'));
}

} // namespace

LockFile::LockFile(std::string path, Use use) : path_(std::move(path)), use_(std::move(use)) {
  try {
    while (!take()) {
    }
  } catch (...) {
    if (fd_ >= 0) close(fd_);
    throw;
  }
}

bool LockFile::take() {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + path_ + ": " + std::strerror(errno));
  // On a file system without locks the command continues without a lock.
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const std::string pid = first_line(fd_);
    throw Failure(DLLM_FAILED_PRECONDITION,
                  use_.name + " is in use: process " + (pid.empty() ? "(just starting)" : pid) +
                      " " + use_.does,
                  use_.hint);
  }
  // The former owner may have removed the file between open and flock; the lock is then on a file
  // without a name.
  struct stat own {
  }, named{};
  if (fstat(fd_, &own) != 0 || stat(path_.c_str(), &named) != 0 || own.st_ino != named.st_ino) {
    close(fd_);
    fd_ = -1;
    return false;
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(fd_, 0) != 0 ||
      pwrite(fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    throw Failure(DLLM_RESOURCE_EXHAUSTED, "cannot write " + path_ + ": " + std::strerror(errno));
  }
  return true;
}

LockFile::~LockFile() {
  unlink(path_.c_str());
  close(fd_);
}

RunLock::RunLock(const std::string& folder) : folder_(folder) {
  std::error_code error;
  made_folder_ = fs::create_directories(folder_, error);
  if (error)
    throw Failure(DLLM_PERMISSION_DENIED, "cannot create " + folder_ + ": " + error.message());
  try {
    file_ = std::make_unique<const LockFile>(
        folder_ + "/LOCK", LockFile::Use{folder_, "trains there",
                                         "wait until it ends, or name another folder with --out"});
  } catch (...) {
    if (made_folder_) rmdir(folder_.c_str());
    throw;
  }
}

bool RunLock::is_held(const std::string& folder) {
  const int fd = open((folder + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

RunLock::~RunLock() {
  file_ = nullptr;
  if (made_folder_) rmdir(folder_.c_str());
}

OutputLock::OutputLock(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (path.empty() || (fs::exists(status) && !fs::is_regular_file(status))) return;
  file_ = std::make_unique<const LockFile>(
      path + ".lock",
      LockFile::Use{path, "writes to it", "wait until it ends, or choose another --out"});
}

} // namespace dllm::cli

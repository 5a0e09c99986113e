#include "run_lock.h"

#include "handles.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

std::string first_line(int fd) {
  char text[32] = {};
  const ssize_t size = pread(fd, text, sizeof text - 1, 0);
  const std::string all(text, size > 0 ? static_cast<size_t>(size) : 0);
  return all.substr(0, all.find('\n'));
}

}  // namespace

RunLock::RunLock(const std::string& folder) : folder_(folder), path_(folder + "/LOCK") {
  std::error_code error;
  made_folder_ = fs::create_directories(folder_, error);
  if (error) throw Failure(DLLM_PERMISSION_DENIED, "cannot create " + folder_ + ": " + error.message());
  try {
    while (!take()) {}
  } catch (...) {
    if (fd_ >= 0) close(fd_);
    if (made_folder_) rmdir(folder_.c_str());
    throw;
  }
}

bool RunLock::take() {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + path_ + ": " + std::strerror(errno));
  // Where a file system has no locks the run goes on without one.
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const std::string pid = first_line(fd_);
    throw Failure(DLLM_FAILED_PRECONDITION,
                  folder_ + " is in use: process " + (pid.empty() ? "(just starting)" : pid) + " trains there",
                  "wait until it ends, or name another folder with --out");
  }
  // The one before may have removed the file between open and flock: then the lock is on a file without a name.
  struct stat own {}, named {};
  if (fstat(fd_, &own) != 0 || stat(path_.c_str(), &named) != 0 || own.st_ino != named.st_ino) {
    close(fd_);
    fd_ = -1;
    return false;
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(fd_, 0) != 0 || pwrite(fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    throw Failure(DLLM_RESOURCE_EXHAUSTED, "cannot write " + path_ + ": " + std::strerror(errno));
  }
  return true;
}

RunLock::~RunLock() {
  unlink(path_.c_str());
  close(fd_);
  if (made_folder_) rmdir(folder_.c_str());
}

}  // namespace dllm::cli

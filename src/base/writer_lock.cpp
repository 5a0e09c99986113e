#include "base/writer_lock.h"

#include "base/error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace dllm {

WriterLock::WriterLock(const std::string& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644)) {
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;
    ::close(fd_);
    fail_with_hint("wait until it ends, or name another file", Code::unavailable,
                   "{} is in use: another process writes to it", path);
  }
}

WriterLock::~WriterLock() {
  if (fd_ < 0) return;
  ::flock(fd_, LOCK_UN); // closing alone is not enough: a forked child may have the descriptor
  ::close(fd_);
}

} // namespace dllm

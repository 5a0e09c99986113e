// Asks Linux for the CPUs and memory that this process may use, and for random bytes of file names.

#include "base/error.h"
#include "base/files.h"
#include "base/threads/cgroup.h"
#include "base/threads/meter.h"
#include "base/threads/parallel.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

namespace dllm {
int allowed_cpus() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  if (const double quota = cgroup_limits().cpus; quota > 0)
    count = static_cast<int>(std::min<double>(count, std::max(1.0, quota)));
  return std::max(1, count);
}

int64_t machine_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  int64_t bytes = pages > 0 && page > 0 ? pages * page : 0;
  if (const int64_t limit = cgroup_limits().memory; limit > 0)
    bytes = bytes > 0 ? std::min(bytes, limit) : limit;
  return bytes;
}

// Does not use std::random_device, because a statically linked C++ library then needs arc4random of
// glibc 2.36.
std::string unique_word() {
  uint64_t bits = 0;
  if (getentropy(&bits, sizeof bits) != 0)
    fail(Code::unavailable, "the system gives no random bytes: {}", std::strerror(errno));
  return fmt::format("{:016x}", bits);
}

} // namespace dllm

// What the operating system reports about this process (CPUs and memory that it may use), and random bytes for names. Linux.

#include "base/error.h"
#include "base/files.h"
#include "base/meter.h"
#include "base/parallel.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

namespace dllm {
namespace {

// cgroup v2 writes "quota period" in microseconds, or "max period". 0: no limit.
int cgroup_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  try {
    return std::max(1, static_cast<int>(std::stod(quota) / period));
  } catch (const std::exception&) {
    return 0;
  }
}

} // namespace

int allowed_cpus() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  if (const int quota = cgroup_quota(); quota > 0) count = std::min(count, quota);
  return std::max(1, count);
}

int64_t machine_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  int64_t bytes = pages > 0 && page > 0 ? pages * page : 0;
  std::ifstream file("/sys/fs/cgroup/memory.max"); // cgroup v2: bytes, or "max"
  int64_t limit = 0;
  if (file >> limit && limit > 0) bytes = bytes > 0 ? std::min(bytes, limit) : limit;
  return bytes;
}

// Not std::random_device: where the C++ library is linked in, it needs the arc4random of glibc 2.36.
std::string unique_word() {
  uint64_t bits = 0;
  if (getentropy(&bits, sizeof bits) != 0)
    fail(Code::unavailable, "the system gives no random bytes: {}", std::strerror(errno));
  return fmt::format("{:016x}", bits);
}

} // namespace dllm

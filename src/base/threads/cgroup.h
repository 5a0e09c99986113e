#pragma once
// Reads the limits that the control groups of this process set (cgroup version 1, 2, or both
// mounted at once).

#include <cstdint>
#include <string>

namespace dllm {

struct CgroupLimits {
  double cpus = 0;    // 0: no limit
  int64_t memory = 0; // bytes; 0: no limit
};

// Returns the smallest limits of the process's groups and of their parent groups. root: where the
// groups are mounted. own: a file that lists the process's groups, as /proc/self/cgroup does. A
// file that is missing or unreadable sets no limit.
CgroupLimits cgroup_limits(const std::string& root = "/sys/fs/cgroup",
                           const std::string& own = "/proc/self/cgroup");

} // namespace dllm

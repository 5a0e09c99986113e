#pragma once
// Limits that the control groups of this process set: version 2, version 1, and both at a time.

#include <cstdint>
#include <string>

namespace dllm {

struct CgroupLimits {
  double cpus = 0;    // 0: no limit
  int64_t memory = 0; // bytes; 0: no limit
};

// The smallest limits of the process's groups and of all groups around them. root: where the groups are mounted; own: the
// list of the process's groups, as in /proc/self/cgroup. A file that is not there or holds something else is no limit.
CgroupLimits cgroup_limits(const std::string& root = "/sys/fs/cgroup",
                           const std::string& own = "/proc/self/cgroup");

} // namespace dllm

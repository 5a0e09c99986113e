#include "base/threads/cgroup.h"

#include <algorithm>
#include <fstream>
#include <vector>

namespace dllm {
namespace {

template <class T> void take_smaller(T& least, T limit) {
  if (limit > 0 && (least == 0 || limit < least)) least = limit;
}

// Returns quota / period in CPUs, or 0 if there is no limit ("max" or -1). An empty period_file
// means that both numbers are in the quota file: "100000 50000".
double quotient(const std::string& quota_file, const std::string& period_file) {
  std::ifstream quota_text(quota_file);
  double quota = 0, period = 0;
  if (!(quota_text >> quota) || quota <= 0) return 0;
  if (period_file.empty()) return quota_text >> period && period > 0 ? quota / period : 0;
  std::ifstream period_text(period_file);
  return period_text >> period && period > 0 ? quota / period : 0;
}

int64_t bytes_in(const std::string& file) {
  std::ifstream text(file);
  int64_t bytes = 0;
  return text >> bytes && bytes > 0 ? bytes : 0;
}

// Adds the limits of one folder. Version 1 writes a number near 2^63 for "no limit"; such a number
// is kept, because it is larger than any machine's memory.
void add_limits(const std::string& folder, CgroupLimits& limits) {
  take_smaller(limits.cpus, quotient(folder + "/cpu.max", ""));
  take_smaller(limits.cpus, quotient(folder + "/cpu.cfs_quota_us", folder + "/cpu.cfs_period_us"));
  take_smaller(limits.memory, bytes_in(folder + "/memory.max"));
  take_smaller(limits.memory, bytes_in(folder + "/memory.limit_in_bytes"));
}

// Adds the limits of the mount and of every folder on the path: for "/a/b" also "/a" and "/a/b".
// The folders may be missing, because inside a container the path may be the host's.
void add_group(const std::string& mount, const std::string& path, CgroupLimits& limits) {
  add_limits(mount, limits);
  for (size_t at = 1; at != 0 && at <= path.size(); ++at) {
    at = std::min(path.find('/', at), path.size());
    add_limits(mount + path.substr(0, at), limits);
  }
}

} // namespace

CgroupLimits cgroup_limits(const std::string& root, const std::string& own) {
  CgroupLimits limits;
  for (const char* mount : {"", "/unified", "/cpu", "/cpu,cpuacct", "/memory"})
    add_limits(root + mount, limits); // even if the list of groups cannot be read
  std::ifstream list(own);
  for (std::string line; std::getline(list, line);) { // "0::/path" or "4:cpu,cpuacct:/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (path.empty() || path[0] != '/' || path.find("..") != std::string::npos) continue;
    if (controllers.empty()) {
      add_group(root, path, limits);
      add_group(root + "/unified", path, limits);
    } else {
      add_group(root + "/" + controllers, path, limits);
      if (controllers.find("cpu") != std::string::npos) add_group(root + "/cpu", path, limits);
    }
  }
  return limits;
}

} // namespace dllm

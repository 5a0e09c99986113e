// Control groups of both versions, as hosts and containers show them.

#include "base/threads/cgroup.h"

#include "base/files.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <map>

namespace dllm {
namespace {

CgroupLimits limits_of(const std::string& own, const std::map<std::string, std::string>& files) {
  const test::TempFolder folder;
  for (const auto& [path, text] : files) {
    make_directories(parent_path(folder.path(path)));
    write_file_atomic(folder.path(path), text);
  }
  write_file_atomic(folder.path("own"), own);
  return cgroup_limits(folder.path(), folder.path("own"));
}

TEST(Cgroup, VersionTwoInAContainer) {
  const CgroupLimits limits =
      limits_of("0::/\n", {{"cpu.max", "150000 100000\n"}, {"memory.max", "1000\n"}});
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory, 1000);
}

TEST(Cgroup, VersionTwoOfTheProcessAndOfTheGroupsAroundIt) {
  const CgroupLimits limits =
      limits_of("0::/a.slice/b.service\n", {{"a.slice/cpu.max", "200000 100000\n"},
                                            {"a.slice/memory.max", "max\n"},
                                            {"a.slice/b.service/cpu.max", "max 100000\n"},
                                            {"a.slice/b.service/memory.max", "5000\n"},
                                            {"other/memory.max", "10\n"}});
  EXPECT_EQ(limits.cpus, 2);
  EXPECT_EQ(limits.memory, 5000);
}

TEST(Cgroup, VersionOneAsAHostShowsIt) {
  const std::map<std::string, std::string> container = {
      {"cpu,cpuacct/cpu.cfs_quota_us", "100000\n"},
      {"cpu,cpuacct/cpu.cfs_period_us", "50000\n"},
      {"memory/memory.limit_in_bytes", "4096\n"}};
  // The list names the host's path, which is not there.
  for (const char* own : {"4:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n", "", "nothing\n"}) {
    const CgroupLimits limits = limits_of(own, container);
    EXPECT_EQ(limits.cpus, 2) << own;
    EXPECT_EQ(limits.memory, 4096) << own;
  }
  const CgroupLimits nested =
      limits_of("4:cpu,cpuacct:/a/b\n5:memory:/a\n",
                {{"cpu/a/b/cpu.cfs_quota_us", "300000\n"},
                 {"cpu/a/b/cpu.cfs_period_us", "100000\n"},
                 {"cpu/cpu.cfs_quota_us", "-1\n"},
                 {"cpu/cpu.cfs_period_us", "100000\n"},
                 {"memory/a/memory.limit_in_bytes", "77\n"},
                 {"memory/memory.limit_in_bytes", "9223372036854771712\n"}});
  EXPECT_EQ(nested.cpus, 3);
  EXPECT_EQ(nested.memory, 77);
}

TEST(Cgroup, NoLimitIsNone) {
  const CgroupLimits limits = limits_of("0::/\n", {{"cpu.max", "max 100000\n"},
                                                   {"memory.max", "max\n"},
                                                   {"cpu/cpu.cfs_quota_us", "-1\n"},
                                                   {"memory/memory.limit_in_bytes", "text\n"}});
  EXPECT_EQ(limits.cpus, 0);
  EXPECT_EQ(limits.memory, 0);
}

} // namespace
} // namespace dllm

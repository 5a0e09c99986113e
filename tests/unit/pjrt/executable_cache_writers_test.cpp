// Many writers of one folder: threads, processes, and processes that are killed.

#include "pjrt/cache/executable_cache.h"
#include "unit/test_files.h"

#include <sys/wait.h>

#include <atomic>
#include <thread>

namespace dllm::pjrt {
namespace {

using test::TempFolder;

const std::string kKeys[3] = {"first", "second", "third"};

// Programs of any writer differ from anything else: one letter, as often as its number says.
std::string program(int writer, int round) {
  const auto letter = static_cast<char>('a' + writer);
  return std::string(static_cast<size_t>(1000 * writer + 10 * round + 1), letter);
}

bool is_whole(const std::string& bytes) {
  if (bytes.empty()) return false;
  const size_t writer = static_cast<size_t>(bytes[0] - 'a');
  const size_t beyond = bytes.size() - 1 - 1000 * writer;
  return bytes == std::string(bytes.size(), bytes[0]) && beyond % 10 == 0 && beyond < 1000;
}

// So low that writers remove each other's files; none.
constexpr int64_t kLimits[] = {20000, 0};

// Stores and loads. False when something came back that no writer stored, or nothing where nothing
// is ever removed.
bool busy(const std::string& folder, int writer, int64_t limit) {
  ExecutableCache cache(folder, limit);
  for (int round = 0; round < 40; ++round) {
    const std::string& stored = kKeys[(writer + round) % 3];
    cache.store(stored, program(writer, round));
    if (limit == 0 && !cache.load(stored)) return false;
    for (const std::string& key : kKeys) {
      const auto found = cache.load(key);
      if (found && !is_whole(*found)) return false;
    }
  }
  return true;
}

void expect_no_partial_files(const std::string& folder) {
  for (const std::string& name : list_directory(folder))
    EXPECT_FALSE(name.ends_with(".partial")) << name;
}

TEST(ExecutableCacheWriters, ThreadsOfOneProcess) {
  for (const int64_t limit : kLimits) {
    TempFolder folder(true);
    std::atomic<int> good{0};
    std::vector<std::thread> threads;
    for (int writer = 0; writer < 8; ++writer)
      threads.emplace_back([&, writer] { good += busy(folder.path(), writer, limit); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, 8) << limit;
    expect_no_partial_files(folder.path());
  }
}

TEST(ExecutableCacheWriters, Processes) {
  for (const int64_t limit : kLimits) {
    TempFolder folder(true);
    std::vector<pid_t> children;
    for (int writer = 0; writer < 8; ++writer) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(busy(folder.path(), writer, limit) ? 0 : 1);
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << limit;
    }
    expect_no_partial_files(folder.path());
  }
}

std::atomic<int> left{-1};
void die_at_zero(const char*, const std::string&) {
  if (left.fetch_sub(1) == 0) ::kill(::getpid(), SIGKILL);
}

TEST(ExecutableCacheWriters, AKilledOneLeavesOldOrNew) {
  for (int n = 0;; ++n) {
    TempFolder folder(true);
    ExecutableCache cache(folder.path());
    cache.store(kKeys[0], "old");
    const pid_t child = ::fork();
    if (child == 0) {
      left = n;
      set_file_hook(die_at_zero);
      cache.store(kKeys[0], "new");
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const auto now = cache.load(kKeys[0]);
    EXPECT_TRUE(now == "old" || now == "new") << n;
    cache.store(kKeys[0], "newer");
    EXPECT_EQ(cache.load(kKeys[0]), "newer") << n;
    if (WIFSIGNALED(status)) continue;
    EXPECT_EQ(now, "new");
    EXPECT_GE(n, 6) << "folder, create, two writes, sync, rename, sync of the folder";
    break;
  }
}

} // namespace
} // namespace dllm::pjrt

#include "pjrt/cache/executable_cache.h"

#include "base/log.h"
#include "unit/test_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <ctime>

namespace dllm::pjrt {
namespace {

using test::TempFolder;

const std::string kKey(64, 'a');
const std::string kProgram("machine code\0with a zero in it", 30);

std::string file_of(const std::string& folder, const std::string& key) {
  return join_path(folder, key + ".program");
}

// Sets when a program was last used, in seconds before now.
void age(const std::string& path, time_t seconds) {
  const time_t then = std::time(nullptr) - seconds;
  const timespec times[2] = {{then, 0}, {then, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(ExecutableCache, GivesBackWhatWasStored) {
  TempFolder folder;
  ExecutableCache cache(folder.path("made/when/needed"));
  EXPECT_FALSE(cache.load(kKey).has_value());
  cache.store(kKey, kProgram);
  EXPECT_EQ(cache.load(kKey), kProgram);
  cache.store(kKey, "another");
  EXPECT_EQ(ExecutableCache(cache.folder()).load(kKey), "another") << "by another start";
  cache.store(std::string(64, 'b'), "");
  EXPECT_EQ(cache.load(std::string(64, 'b')), "");
  EXPECT_EQ(list_directory(cache.folder()).size(), 2u);
}

TEST(ExecutableCache, OffKeepsNothing) {
  ExecutableCache cache("off");
  EXPECT_FALSE(cache.enabled());
  cache.store(kKey, kProgram);
  EXPECT_FALSE(cache.load(kKey).has_value());
  EXPECT_FALSE(file_exists("off"));
}

TEST(ExecutableCache, KeysAreNoPaths) {
  TempFolder folder;
  ExecutableCache cache(folder.path("cache"));
  for (const char* key : {"../outside", "a/b", "", "."}) {
    cache.store(key, kProgram);
    EXPECT_FALSE(cache.load(key).has_value()) << key;
  }
  EXPECT_TRUE(list_directory(folder.path()).empty());
}

TEST(ExecutableCache, StandsInTheUsersCacheFolder) {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string old_xdg = xdg ? xdg : "", old_home = home ? home : "";
  ::setenv("HOME", "/user", 1);
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(ExecutableCache::default_folder(), "/caches/dllm/pjrt");
  EXPECT_EQ(ExecutableCache("auto").folder(), "/caches/dllm/pjrt");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(ExecutableCache::default_folder(), "/user/.cache/dllm/pjrt");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(ExecutableCache::default_folder(), "/user/.cache/dllm/pjrt");
  ::unsetenv("HOME");
  EXPECT_FALSE(ExecutableCache("auto").enabled());
  if (xdg) ::setenv("XDG_CACHE_HOME", old_xdg.c_str(), 1);
  if (home) ::setenv("HOME", old_home.c_str(), 1);
}

TEST(ExecutableCache, EveryCutAndEveryChangedBitIsRefusedAndReplaced) {
  TempFolder folder(true);
  ExecutableCache cache(folder.path());
  cache.store(kKey, kProgram);
  const std::string path = file_of(folder.path(), kKey);
  const std::string good = read_text(path);
  const auto put = [&](const std::string& bytes) {
    FileWriter writer(path);
    writer.write(bytes.data(), bytes.size());
  };
  for (size_t size = 0; size < good.size(); ++size) {
    put(good.substr(0, size));
    ASSERT_FALSE(cache.load(kKey).has_value()) << "cut at " << size;
  }
  put(good + "x");
  EXPECT_FALSE(cache.load(kKey).has_value()) << "with more behind it";
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string changed = good;
    changed[bit / 8] ^= static_cast<char>(1u << bit % 8);
    put(changed);
    ASSERT_FALSE(cache.load(kKey).has_value()) << "bit " << bit;
  }
  cache.store(kKey, kProgram);
  EXPECT_EQ(cache.load(kKey), kProgram);
}

TEST(ExecutableCache, AFileOfAnotherKeyIsRefused) {
  TempFolder folder;
  ExecutableCache cache(folder.path());
  const std::string other(64, 'b');
  cache.store(kKey, kProgram);
  rename_path(file_of(folder.path(), kKey), file_of(folder.path(), other));
  EXPECT_FALSE(cache.load(other).has_value());
  make_directories(file_of(folder.path(), kKey)); // a folder in the way of a file
  EXPECT_FALSE(cache.load(kKey).has_value());
  cache.store(kKey, kProgram);
  EXPECT_FALSE(cache.load(kKey).has_value());
}

class Logged : public ::testing::Test {
protected:
  void SetUp() override {
    log_config(LogLevel::warn, LogSink::queue);
    lines();
  }
  void TearDown() override {
    set_file_hook(nullptr);
    log_config(LogLevel::info, LogSink::none);
  }
  static std::vector<std::string> lines() {
    std::vector<std::string> all;
    while (auto line = log_next()) all.push_back(line->second);
    return all;
  }
};

using ExecutableCacheLog = Logged;

TEST_F(ExecutableCacheLog, AnImpossibleFolderIsReportedOnce) {
  TempFolder folder;
  write_file_atomic(folder.path("file"), "x");
  ExecutableCache cache(folder.path("file/cache"));
  for (int i = 0; i < 3; ++i) {
    cache.store(kKey, kProgram);
    EXPECT_FALSE(cache.load(kKey).has_value());
  }
  const auto logs = lines();
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_NE(logs[0].find(folder.path("file/cache")), std::string::npos) << logs[0];
}

// As root every folder can be written, so the child drops to user 65534 first.
TEST_F(ExecutableCacheLog, AReadOnlyFolderIsReadAndNotWritten) {
  TempFolder folder;
  ExecutableCache cache(folder.path());
  cache.store(kKey, kProgram);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(9);
    if (cache.load(kKey) != kProgram) ::_exit(1);
    cache.store(std::string(64, 'b'), "new");
    if (cache.load(std::string(64, 'b'))) ::_exit(2);
    ::_exit(lines().size() == 1 ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

std::string failing; // the operation at which the disk is full
void full_disk(const char* operation, const std::string& path) {
  if (operation == failing)
    throw Error(Code::resource_exhausted, "cannot " + failing + " " + path + ": disk is full");
}

TEST_F(ExecutableCacheLog, AFullDiskLeavesTheOldProgramAndNoRubbish) {
  for (const char* operation : {"create", "write", "sync", "rename"}) {
    TempFolder folder;
    ExecutableCache cache(folder.path());
    cache.store(kKey, kProgram);
    failing = operation;
    set_file_hook(full_disk);
    cache.store(kKey, "new");
    cache.store(kKey, "new");
    set_file_hook(nullptr);
    EXPECT_EQ(cache.load(kKey), kProgram) << operation;
    EXPECT_EQ(list_directory(folder.path()).size(), 1u) << operation;
    EXPECT_EQ(lines().size(), 1u) << operation;
  }
}

TEST(ExecutableCacheLimit, RemovesWhatWasUsedLongestAgo) {
  TempFolder folder;
  const std::string program(1000, 'p');
  const std::string keys[4] = {"0", "1", "2", "3"};
  ExecutableCache cache(folder.path(), 3500); // three of them, with their heads
  for (int i = 0; i < 3; ++i) {
    cache.store(keys[i], program);
    age(file_of(folder.path(), keys[i]), 300 - 100 * i);
  }
  ASSERT_TRUE(cache.load(keys[0]).has_value()); // used now, so 1 is the oldest
  cache.store(keys[3], program);
  EXPECT_TRUE(cache.load(keys[0]).has_value());
  EXPECT_FALSE(cache.load(keys[1]).has_value());
  EXPECT_TRUE(cache.load(keys[2]).has_value());
  EXPECT_TRUE(cache.load(keys[3]).has_value());
}

TEST(ExecutableCacheLimit, LeavesAloneWhatIsNotOurs) {
  TempFolder folder;
  write_file_atomic(folder.path("notes.txt"), std::string(5000, 'n'));
  write_file_atomic(folder.path("new.partial"), "another process is writing");
  write_file_atomic(folder.path("old.partial"), "the writer of this is dead");
  age(folder.path("old.partial"), 7200);
  ExecutableCache cache(folder.path(), 3000);
  cache.store(kKey, kProgram);
  cache.store(std::string(64, 'b'), std::string(4000, 'x')); // more than the limit: not kept
  EXPECT_EQ(list_directory(folder.path()),
            (std::vector<std::string>{kKey + ".program", "new.partial", "notes.txt"}));
}

TEST(ExecutableCacheLimit, ZeroIsNoLimit) {
  TempFolder folder(true);
  ExecutableCache cache(folder.path(), 0);
  for (char key = 'a'; key <= 'z'; ++key) cache.store(std::string(1, key), kProgram);
  EXPECT_EQ(list_directory(folder.path()).size(), 26u);
}

} // namespace
} // namespace dllm::pjrt

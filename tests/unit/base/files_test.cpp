#include "base/files.h"

#include "unit/test_files.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>

namespace dllm {
namespace {

using test::expect_error;
using test::TempFolder;

TEST(Files, WritesAtomicallyAndReadsBack) {
  TempFolder folder;
  const std::string path = folder.path("a.txt");
  write_file_atomic(path, "one");
  write_file_atomic(path, std::string("two\0x", 5));
  EXPECT_EQ(read_text(path), std::string("two\0x", 5));
  EXPECT_EQ(file_size(path), 5);
  EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{"a.txt"});
  expect_error(Code::resource_exhausted, "has 5 bytes, more than the limit of 4",
               [&] { read_text(path, 4); });
}

TEST(Files, ErrorsNameThePathAndTheReason) {
  TempFolder folder;
  const std::string path = folder.path("none");
  expect_error(Code::not_found, "cannot open " + path, [&] { map_file(path); });
  expect_error(Code::not_found, "cannot read " + path, [&] { file_size(path); });
  expect_error(Code::not_found, "cannot list " + path, [&] { list_directory(path); });
  expect_error(Code::not_found, "cannot create " + path + "/x",
               [&] { FileWriter writer(path + "/x"); });
  expect_error(Code::not_found, "cannot rename " + path, [&] { rename_path(path, path + "2"); });
  expect_error(Code::invalid_argument, "is not a regular file", [&] { map_file(folder.path()); });
}

TEST(Files, MappedBytesOutliveTheName) {
  TempFolder folder;
  write_file_atomic(folder.path("a"), "hello");
  write_file_atomic(folder.path("empty"), "");
  const Bytes bytes = map_file(folder.path("a"));
  remove_all(folder.path("a"));
  EXPECT_EQ(bytes.text(), "hello");
  EXPECT_EQ(bytes.part(1, 3).text(), "ell");
  EXPECT_TRUE(map_file(folder.path("empty")).empty());
}

TEST(Files, RemovesTreesButFollowsNoLinks) {
  TempFolder folder;
  make_directories(folder.path("a/b/c"));
  write_file_atomic(folder.path("a/b/x"), "x");
  write_file_atomic(folder.path("kept"), "kept");
  ASSERT_EQ(::symlink(folder.path().c_str(), folder.path("a/link").c_str()), 0);
  remove_all(folder.path("a"));
  remove_all(folder.path("a")); // nothing there is fine
  EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{"kept"});
}

TEST(Files, SwapsFoldersInOneStep) {
  TempFolder folder;
  for (const char* name : {"a", "b"}) {
    make_directories(folder.path(name));
    write_file_atomic(folder.path(name) + "/name", name);
  }
  if (!swap_paths(folder.path("a"), folder.path("b")))
    GTEST_SKIP() << "this file system cannot swap";
  EXPECT_EQ(read_text(folder.path("a/name")), "b");
  EXPECT_EQ(read_text(folder.path("b/name")), "a");
}

TEST(Files, Paths) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(file_name("a/b.json"), "b.json");
}

std::atomic<int> left{-1};
void die_at_zero(const char*, const std::string&) {
  if (left.fetch_sub(1) == 0) ::kill(::getpid(), SIGKILL);
}

TEST(Files, KilledAtomicWriteLeavesOldOrNew) {
  for (int n = 0;; ++n) {
    TempFolder folder;
    const std::string path = folder.path("a");
    write_file_atomic(path, "old");
    const pid_t child = ::fork();
    if (child == 0) {
      left = n;
      set_file_hook(die_at_zero);
      write_file_atomic(path, "new content");
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string now = read_text(path);
    EXPECT_TRUE(now == "old" || now == "new content") << n << " " << now;
    if (!WIFSIGNALED(status)) {
      EXPECT_EQ(now, "new content");
      EXPECT_GE(n, 5) << "create, write, sync, rename, sync of the folder";
      break;
    }
  }
}

TEST(Files, UniqueWordsAreHexDigitsAndDiffer) {
  std::set<std::string> words;
  for (int i = 0; i < 1000; ++i) {
    const std::string word = unique_word();
    EXPECT_EQ(word.size(), 16u);
    EXPECT_EQ(word.find_first_not_of("0123456789abcdef"), std::string::npos) << word;
    words.insert(word);
  }
  EXPECT_EQ(words.size(), 1000u);
}

} // namespace
} // namespace dllm

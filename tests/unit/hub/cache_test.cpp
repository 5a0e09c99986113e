#include "hub/cache/cache.h"

#include "base/files.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <string>

namespace dllm::hub {
namespace {

const std::string kCommit(40, 'c');

TEST(Cache, FoldersAreThoseOfHuggingfaceHub) {
  const RepoCache cache("/cache", *parse_name("org/na-me"));
  EXPECT_EQ(cache.folder(), "/cache/models--org--na-me");
  EXPECT_EQ(cache.blob("e"), "/cache/models--org--na-me/blobs/e");
  EXPECT_EQ(cache.lock("e"), "/cache/.locks/models--org--na-me/e.lock");
  EXPECT_EQ(cache.file(kCommit, "a/b"), "/cache/models--org--na-me/snapshots/" + kCommit + "/a/b");
  EXPECT_EQ(RepoCache("/cache", *parse_name("dataset:org/name")).folder(),
            "/cache/datasets--org--name");
}

TEST(Cache, NamesOfFolders) {
  EXPECT_EQ(name_of_folder("models--org--na-me")->repo, "org/na-me");
  EXPECT_EQ(name_of_folder("datasets--org--name")->kind, RepoKind::dataset);
  EXPECT_EQ(text_of(*name_of_snapshot("/c/models--org--na-me/snapshots/v2")), "org/na-me@v2");
  EXPECT_EQ(name_of_snapshot("/c/models--org--na-me/snapshots/v2/a.gguf")->revision, "v2");
  for (const char* path : {"/c/models--org--na-me/snapshots/", "/c/models--org--na-me/blobs/e",
                           "/c/other/snapshots/v2", "/snapshots/v2", ""})
    EXPECT_FALSE(name_of_snapshot(path)) << path;
  for (const char* folder : {"", ".locks", "models--", "models--org", "spaces--a--b", "version.txt",
                             "models--..--..", "models--a--b--c"})
    EXPECT_FALSE(name_of_folder(folder)) << folder;
}

TEST(Cache, ReferencesNameCommits) {
  const test::TempFolder folder;
  const RepoCache cache(folder.path("hub"), *parse_name("org/name"));
  EXPECT_FALSE(cache.commit_of("main"));
  EXPECT_EQ(cache.commit_of(kCommit), kCommit);
  cache.write_ref("refs/pr/1", kCommit);
  EXPECT_EQ(cache.commit_of("refs/pr/1"), kCommit);
  write_file_atomic(join_path(cache.folder(), "refs/main"), "../../etc");
  EXPECT_FALSE(cache.commit_of("main"));
}

TEST(Cache, LinksAreRelativeAndReplaceDanglingOnes) {
  const test::TempFolder folder;
  const RepoCache cache(folder.path("hub"), *parse_name("org/name"));
  make_directories(parent_path(cache.blob("e1")));
  write_file_atomic(cache.blob("e2"), "content");
  cache.link(kCommit, "a/b/c.txt", "e1"); // its blob is missing
  EXPECT_FALSE(file_exists(cache.file(kCommit, "a/b/c.txt")));
  cache.link(kCommit, "a/b/c.txt", "e2");
  EXPECT_EQ(read_text(cache.file(kCommit, "a/b/c.txt")), "content");
  rename_path(folder.path("hub"), folder.path("moved"));
  const RepoCache moved(folder.path("moved"), *parse_name("org/name"));
  EXPECT_EQ(read_text(moved.file(kCommit, "a/b/c.txt")), "content");
}

} // namespace
} // namespace dllm::hub

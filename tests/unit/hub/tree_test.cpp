#include "hub/cache/tree.h"

#include "base/files.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <string>

namespace dllm::hub {
namespace {

const std::string kCommit(40, 'c'), kHash(64, 'a');

class Tree : public ::testing::Test {
protected:
  test::TempFolder folder_;
  RepoCache cache_{folder_.path("hub"), *parse_name("dataset:org/name")};
  void write(const std::string& text) const {
    make_directories(parent_path(cache_.tree(kCommit)));
    write_file_atomic(cache_.tree(kCommit), text);
  }
};

TEST_F(Tree, IsReadAgain) {
  EXPECT_FALSE(kept_tree(cache_, kCommit));
  const Listing listing{kCommit, {{"a.jsonl", 5, "", "b1"}, {"b/c.parquet", 7, kHash, "b2"}}};
  EXPECT_TRUE(keep_tree(cache_, listing, nullptr));
  EXPECT_TRUE(is_directory(cache_.snapshot(kCommit))) << "huggingface_hub wants the folder";
  const auto kept = kept_tree(cache_, kCommit);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->commit, kCommit);
  ASSERT_EQ(kept->files.size(), 2u);
  EXPECT_EQ(kept->files[0].size, 5);
  EXPECT_EQ(kept->files[0].sha256, "");
  EXPECT_EQ(kept->files[1].path, "b/c.parquet");
  EXPECT_EQ(kept->files[1].size, 7);
  EXPECT_EQ(kept->files[1].sha256, kHash);
  EXPECT_EQ(kept->files[1].blob_id, "b2");
}

TEST_F(Tree, AListWithoutSizesOrHashesIsNotKept) {
  EXPECT_FALSE(keep_tree(cache_, {kCommit, {{"a", -1, "", "b"}}}, nullptr));
  EXPECT_FALSE(keep_tree(cache_, {kCommit, {{"a", 1, "", ""}}}, nullptr));
  EXPECT_FALSE(file_exists(cache_.folder()));
}

TEST_F(Tree, ADamagedFileIsNotUsedAndWrittenAgain) {
  const std::string good = R"({"format_version": 1, "files": {"a": {"size": 1, "blob_id": "b"}}})";
  write(good);
  EXPECT_TRUE(kept_tree(cache_, kCommit));
  for (
      const std::string text :
      {"", "{", "[]", "{}", R"({"format_version": 2, "files": {}})", R"({"format_version": 1})",
       R"({"format_version": "1", "files": {}})", R"({"format_version": 1, "files": []})",
       R"({"format_version": 1, "files": {"a": 5}})",
       R"({"format_version": 1, "files": {"a": {"size": "x", "blob_id": "b"}}})",
       R"({"format_version": 1, "files": {"a": {"size": -1, "blob_id": "b"}}})",
       R"({"format_version": 1, "files": {"a": {"size": 1}}})",
       R"({"format_version": 1, "files": {"../a": {"size": 1, "blob_id": "b"}}})",
       R"({"format_version": 1, "files": {"a": {"size": 1, "blob_id": "b", "lfs_sha256": "x"}}})"}) {
    write(text);
    EXPECT_FALSE(kept_tree(cache_, kCommit)) << text;
  }
  EXPECT_TRUE(keep_tree(cache_, {kCommit, {{"a", 1, "", "b"}}}, nullptr));
  EXPECT_TRUE(kept_tree(cache_, kCommit));
}

} // namespace
} // namespace dllm::hub

#include "hub/name.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace dllm::hub {
namespace {

TEST(Name, RepositoryRevisionAndFile) {
  const Name plain = *parse_name("Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain.repo, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.file, "");
  EXPECT_EQ(plain.kind, RepoKind::model);
  const Name whole = *parse_name("dataset:org/name@refs/pr/1:data/*.parquet");
  EXPECT_EQ(whole.kind, RepoKind::dataset);
  EXPECT_EQ(whole.repo, "org/name");
  EXPECT_EQ(whole.revision, "refs/pr/1");
  EXPECT_EQ(whole.file, "data/*.parquet");
  EXPECT_EQ(parse_name("a/b:x@y.gguf")->file, "x@y.gguf");
  EXPECT_EQ(parse_name("a/b", RepoKind::dataset)->kind, RepoKind::dataset);
}

TEST(Name, TextOfANameIsReadAgain) {
  for (const char* text : {"a/b", "a/b@v2", "a/b:c.gguf", "a/b@v2:c/d.gguf", "dataset:a/b@v2"})
    EXPECT_EQ(text_of(*parse_name(text)), text);
}

TEST(Name, OtherTextsAreNoNames) {
  const std::string long_half(97, 'a');
  for (const std::string& text : {std::string(),
                                  std::string("a"),
                                  std::string("a/"),
                                  std::string("/a"),
                                  std::string("a/b/c"),
                                  std::string("./a"),
                                  std::string("../a"),
                                  std::string("a/.."),
                                  std::string("a/b.git"),
                                  std::string("a--b/c"),
                                  std::string("a/b..c"),
                                  std::string("a/-b"),
                                  std::string("a/b-"),
                                  std::string("a/b."),
                                  std::string("a b/c"),
                                  std::string("a/b\n"),
                                  std::string("a/b@"),
                                  std::string("a/b:"),
                                  std::string("a/b:../c"),
                                  std::string("a/b@../c"),
                                  std::string("a/b:/c"),
                                  std::string("s3://bucket/key"),
                                  std::string("C:\\a/b"),
                                  std::string("a/b\0c", 5),
                                  std::string("a/b:c\0d", 7),
                                  std::string("\xC3\xA9/b"),
                                  "a/" + long_half})
    EXPECT_FALSE(parse_name(text)) << text;
  EXPECT_THROW(need_name("a/b/c"), Error);
}

TEST(Name, AddressesNameFilesOfDataSets) {
  const Name whole = parse_address("hf://datasets/org/name@v2/data/*.parquet");
  EXPECT_EQ(whole.kind, RepoKind::dataset);
  EXPECT_EQ(whole.repo, "org/name");
  EXPECT_EQ(whole.revision, "v2");
  EXPECT_EQ(whole.file, "data/*.parquet");
  EXPECT_EQ(parse_address("hf://datasets/org/name").revision, "main");
  EXPECT_EQ(parse_address("hf://datasets/org/name/data/").file, "data");
  for (const char* text : {"hf://datasets/a/b", "hf://datasets/a/b@v2", "hf://datasets/a/b/c/d",
                           "hf://datasets/a/b@v2/c.gz"})
    EXPECT_EQ(address_of(parse_address(text)), text);
  EXPECT_TRUE(is_address("hf://") && !is_address("hf:/datasets/a/b") && !is_address("a/b"));
  for (const char* text :
       {"hf://", "hf://datasets", "hf://datasets/", "hf://datasets/a", "hf://datasets//b",
        "hf://a/b", "hf://models/a/b", "hf://datasets/a/b/../c", "hf://datasets/a/b@/c",
        "hf://datasets/a/b@..", "hf://datasets/a b/c", "hf://datasets/a/b//c"})
    EXPECT_THROW(parse_address(text), Error) << text;
}

TEST(Name, PathsOfAServerStayBelowTheirFolder) {
  for (const std::string& path : {std::string("a"), std::string("a/b.c"), std::string("..."),
                                  std::string("a..b/c"), std::string(255, 'x')})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("/a"), std::string("a/"), std::string("a//b"),
        std::string("."), std::string(".."), std::string("a/../b"), std::string("a/."),
        std::string("a\0b", 3), std::string("a\\b"), std::string("a\nb"), std::string("a\x7f"),
        std::string(256, 'x'), std::string(2000, '/')})
    EXPECT_FALSE(is_safe_path(path)) << path;
}

} // namespace
} // namespace dllm::hub

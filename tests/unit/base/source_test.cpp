#include "base/files.h"

#include "unit/test_files.h"

namespace dllm {
namespace {

using test::expect_error;
using test::TempFolder;

TEST(Source, Folder) {
  TempFolder folder;
  write_file_atomic(folder.path("b"), "bb");
  write_file_atomic(folder.path("a"), "aa");
  const auto source = open_source(folder.path());
  EXPECT_EQ(source->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(source->has("a"));
  EXPECT_EQ(source->open("b").text(), "bb");
  expect_error(Code::not_found, folder.path("c"), [&] { source->open("c"); });
  expect_error(Code::not_found, "there is no file or folder",
               [&] { open_source(folder.path("c")); });
}

TEST(Source, OneFile) {
  TempFolder folder;
  write_file_atomic(folder.path("a.gguf"), "x");
  const auto source = open_source(folder.path("a.gguf"));
  EXPECT_EQ(source->names(), std::vector<std::string>{"a.gguf"});
  EXPECT_EQ(source->open("a.gguf").text(), "x");
  expect_error(Code::not_found, "is one file, it has no b", [&] { source->open("b"); });
}

TEST(Source, Memory) {
  MemorySource source;
  std::string text = "text";
  source.add("copied", text.data(), text.size(), true);
  source.add("view", text.data(), text.size(), false);
  source.add("empty", nullptr, 0, true);
  text[0] = 'T';
  EXPECT_EQ(source.open("copied").text(), "text");
  EXPECT_EQ(source.open("view").text(), "Text");
  EXPECT_TRUE(source.open("empty").empty());
  expect_error(Code::already_exists, "already holds view",
               [&] { source.add("view", "x", 1, true); });
  expect_error(Code::invalid_argument, "needs a name", [&] { source.add("", "x", 1, true); });
  expect_error(Code::not_found, "holds no other", [&] { source.open("other"); });
}

} // namespace
} // namespace dllm

#include "ckpt/checkpoint/checkpoint_folder.h"

#include "unit/test_files.h"

namespace dllm::ckpt {
namespace {

using test::expect_error;

std::string one_file(const std::string& path,
                     const std::string& numbers = R"("size":1,"crc32":2)") {
  return fmt::format(R"({{"format":1,"step":3,"files":[{{"path":"{}",{}}}]}})", path, numbers);
}

TEST(CommitFile, RoundTrips) {
  const Commit commit{500,
                      {{"a b.json", 0, 0}, {"model/model.safetensors", 1LL << 40, 0xFFFFFFFFu}}};
  const Commit back = parse_commit(commit_text(commit), "COMMIT");
  EXPECT_EQ(back.step, 500);
  ASSERT_EQ(back.files.size(), 2u);
  EXPECT_EQ(back.files[1].path, "model/model.safetensors");
  EXPECT_EQ(back.files[1].size, 1LL << 40);
  EXPECT_EQ(back.files[1].crc32, 0xFFFFFFFFu);
  EXPECT_EQ(commit_text(back), commit_text(commit));
}

TEST(CommitFile, RefusesPathsThatLeaveTheFolder) {
  EXPECT_EQ(parse_commit(one_file("a/b"), "C").files[0].path, "a/b");
  for (const char* path :
       {"../a", "/a", "a/../b", "a//b", "a/", "./a", "", "..", "COMMIT", "a\\\\b", "a\\u0000b"}) {
    expect_error(Code::data_loss, "cannot be the name of a file in a checkpoint",
                 [&] { parse_commit(one_file(path), "C"); });
  }
  expect_error(Code::data_loss, "cannot be the name of a file in a checkpoint",
               [] { parse_commit(one_file(std::string(2000, 'a')), "C"); });
}

TEST(CommitFile, RefusesWrongContent) {
  const auto refuse = [](const std::string& text, const char* part, Code code = Code::data_loss) {
    expect_error(code, part, [&] { parse_commit(text, "C"); });
  };
  refuse("", "not valid JSON");
  refuse("[]", "is not a JSON object");
  refuse(R"({"step":3,"files":[]})", "format is missing");
  refuse(R"({"format":2,"step":3,"files":[]})", "format 2, expected 1", Code::unimplemented);
  refuse(R"({"format":1,"files":[]})", "step is missing");
  refuse(R"({"format":1,"step":-3,"files":[]})", "step is missing or not a number from 0");
  refuse(R"({"format":1,"step":3})", "files is missing or not a list");
  refuse(one_file("a", R"("size":-1,"crc32":2)"), "size is missing or not");
  refuse(one_file("a", R"("size":1e30,"crc32":2)"), "size is missing or not");
  refuse(one_file("a", R"("size":1,"crc32":4294967296)"),
         "crc32 is missing or not a number from 0 to 4294967295");
  refuse(
      R"({"format":1,"step":3,"files":[{"path":"a","size":1,"crc32":2},{"path":"a","size":1,"crc32":2}]})",
      "a is listed twice");
  const std::string whole = one_file("a");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(parse_commit(whole.substr(0, size), "C"), Error) << size;
  }
}

} // namespace
} // namespace dllm::ckpt

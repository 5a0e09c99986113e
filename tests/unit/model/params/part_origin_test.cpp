// The digest of a base: which changes of its files it sees.
#include "model/params/part_origin.h"

#include "base/files.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dllm::model {
namespace {

constexpr const char* kFile = "model.safetensors";

std::string pattern(size_t size) {
  std::string made(size, '\0');
  for (size_t i = 0; i < size; ++i) made[i] = static_cast<char>((i * 7 + i / 251) % 256);
  return made;
}

// Changes a byte of a file, and changes it back.
class ChangedByte {
public:
  ChangedByte(const std::string& path, int64_t at) : path_(path), at_(at) { flip(); }
  ~ChangedByte() { flip(); }
  ChangedByte(const ChangedByte&) = delete;
  ChangedByte& operator=(const ChangedByte&) = delete;

private:
  void flip() {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at_);
    const auto byte = static_cast<char>(file.get());
    file.seekp(at_);
    file.put(static_cast<char>(byte ^ 1));
  }

  std::string path_;
  int64_t at_;
};

TEST(PartOrigin, EveryByteOfASmallBaseCounts) {
  const test::TempFolder folder;
  const std::string file = folder.path(kFile);
  constexpr int64_t kSize = 200'000;
  write_file_atomic(file, pattern(kSize));
  const std::string digest = digest_of(folder.path());
  for (int64_t at = 0; at < kSize; at += 1499) {
    const ChangedByte changed(file, at);
    EXPECT_NE(digest_of(folder.path()), digest) << at;
  }
  for (const int64_t at : {int64_t{65'535}, int64_t{65'536}, kSize - 1024, kSize - 1}) {
    const ChangedByte changed(file, at);
    EXPECT_NE(digest_of(folder.path()), digest) << at;
  }
  EXPECT_EQ(digest_of(folder.path()), digest);
}

TEST(PartOrigin, TheEndsOfEachFileOfALargeBaseCount) {
  const test::TempFolder folder;
  for (const char* name : {"a.safetensors", "b.safetensors"}) {
    write_file_atomic(folder.path(name), "");
    std::filesystem::resize_file(folder.path(name), int64_t{40} << 20);
  }
  write_file_atomic(folder.path("c.safetensors"), pattern(67'000)); // its rest is below a sample
  const std::string digest = digest_of(folder.path());
  for (const char* name : {"a.safetensors", "b.safetensors", "c.safetensors"}) {
    const auto size = static_cast<int64_t>(std::filesystem::file_size(folder.path(name)));
    for (const int64_t at : {int64_t{0}, int64_t{65'535}, size - 1024, size - 1}) {
      const ChangedByte changed(folder.path(name), at);
      EXPECT_NE(digest_of(folder.path()), digest) << name << ' ' << at;
    }
  }
}

TEST(PartOrigin, ADigestOfAnOlderProgramHolds) {
  const test::TempFolder folder;
  write_file_atomic(folder.path(kFile), pattern(200'000));
  const std::optional<PartOrigin> origin = origin_at(folder.path());
  ASSERT_TRUE(origin);
  EXPECT_TRUE(origin->has_digest(digest_of(folder.path())));
  EXPECT_TRUE(
      origin->has_digest("738e49e0ad5511687699d2e259c9e3e4c0f949aacb84f6e93c4d56b723539bf5"));
  EXPECT_FALSE(
      origin->has_digest("838e49e0ad5511687699d2e259c9e3e4c0f949aacb84f6e93c4d56b723539bf5"));
}

} // namespace
} // namespace dllm::model

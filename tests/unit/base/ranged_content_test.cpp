#include "base/http/ranged_content.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace dllm::http {
namespace {

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;

std::string numbered(int64_t size) {
  std::string made(static_cast<size_t>(size), '\0');
  for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>(i * 2654435761U >> 13);
  return made;
}

// A file in memory that counts what is requested of it.
class Counted final : public RangedContent {
public:
  explicit Counted(int64_t size, int64_t first = 256 * kKiB)
      : RangedContent(first), text_(numbered(size)) {}
  int64_t size() const override { return static_cast<int64_t>(text_.size()); }
  std::vector<std::pair<int64_t, int64_t>> take_ranges() const {
    return std::exchange(ranges_, {});
  }
  int64_t take_bytes() const {
    int64_t sum = 0;
    for (const auto& [at, size] : take_ranges()) sum += size;
    return sum;
  }
  const std::string& text() const { return text_; }
  mutable const Task* seen = nullptr;
  const Task* own = nullptr;

private:
  const Task* task() const override { return own; }
  void fetch(int64_t at, int64_t size, char* to, const Task* task) const override {
    const std::lock_guard lock(mutex_);
    check_task(task);
    seen = task;
    ASSERT_TRUE(at >= 0 && size > 0 && at + size <= this->size()) << at << " " << size;
    ranges_.emplace_back(at, size);
    text_.copy(to, static_cast<size_t>(size), static_cast<size_t>(at));
  }

  const std::string text_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<int64_t, int64_t>> ranges_;
};

std::string read(const Content& file, int64_t at, int64_t size) {
  return std::string(file.read(at, size).text());
}

TEST(RangedContent, ReadsOfAnyOrderAreRight) {
  const Counted file(3 * kMiB, 4 * kKiB);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const int64_t at = static_cast<int64_t>(random()) % file.size();
    const int64_t size = static_cast<int64_t>(random()) % std::min(file.size() - at, 9 * kKiB) + 1;
    if (random() % 8 == 0) file.announce(at, std::min(file.size(), at + 64 * kKiB));
    const auto wanted = file.text().substr(static_cast<size_t>(at), static_cast<size_t>(size));
    ASSERT_EQ(read(file, at, size), wanted) << at << " " << size;
    const int64_t rest = std::min<int64_t>(file.size() - at - size, 2 * kKiB);
    ASSERT_EQ(read(file, at + size, rest),
              file.text().substr(static_cast<size_t>(at + size), static_cast<size_t>(rest)));
  }
}

TEST(RangedContent, ConsecutiveReadsLoadAboutTwiceWhatWasRead) {
  const Counted file(20 * kMiB);
  int64_t loaded = 0;
  for (int64_t at = 0; at < file.size(); at += 16 * kKiB) {
    read(file, at, 16 * kKiB);
    loaded += file.take_bytes();
    ASSERT_LE(loaded, 3 * (at + 16 * kKiB) + 256 * kKiB) << at;
  }
  EXPECT_EQ(loaded, file.size()) << "every byte once";
}

TEST(RangedContent, AWindowEndsWithItsAnnouncedRange) {
  const Counted file(4 * kMiB);
  file.announce(1000, 400'000);
  file.announce(400'000, 900'000);
  for (int64_t at = 0; at < 300'000; at += 10'000) { // in turn
    read(file, 1000 + at, 10'000);
    read(file, 400'000 + at, 10'000);
  }
  int64_t loaded = 0;
  for (const auto& [at, size] : file.take_ranges()) {
    EXPECT_TRUE(at >= 1000 && at + size <= 900'000) << at << " " << size;
    EXPECT_TRUE(at >= 400'000 || at + size <= 400'000) << at << " " << size;
    loaded += size;
  }
  EXPECT_LE(loaded, 899'000) << "no byte twice";
}

TEST(RangedContent, ALargeReadIsExactAndInSeveralRequests) {
  const Counted file(20 * kMiB);
  EXPECT_EQ(read(file, 100, 18 * kMiB), file.text().substr(100, 18 * kMiB));
  EXPECT_EQ(file.take_ranges().size(), 3u);
  read(file, 0, 0);
  EXPECT_EQ(file.take_bytes(), 0);
}

TEST(RangedContent, TheTaskIsThatOfTheThread) {
  Counted file(kMiB);
  Task task;
  file.own = &task;
  read(file, 0, 10);
  EXPECT_EQ(file.seen, &task);
  task.cancel();
  EXPECT_THROW(read(file, 512 * kKiB, 100 * kKiB), Error);
}

TEST(RangedContent, IsReadThroughAnInputFile) {
  const auto content = std::make_shared<Counted>(kMiB);
  const InputFile file("hf://x", content);
  EXPECT_EQ(file.path(), "hf://x");
  EXPECT_EQ(file.size(), kMiB);
  EXPECT_EQ(file.descriptor(), -1);
  EXPECT_EQ(file.read(5, 100).text(), content->text().substr(5, 100));
  file.announce(500'000, 500'100);
  content->take_ranges();
  char byte = 0;
  file.read(500'000, &byte, 1);
  EXPECT_EQ(content->take_bytes(), 100);
}

} // namespace
} // namespace dllm::http

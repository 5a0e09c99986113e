#include "text/readers/byte_source.h"

#include "base/task.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace dllm::text {

namespace {

constexpr std::string_view kGzipEnding = ".gz";
constexpr std::string_view kGzipMagic = "\x1F\x8B\x08"; // and the only method of compression, deflate

class PlainSource final : public ByteSource {
public:
  PlainSource(std::shared_ptr<const InputFile> file, const Task* task)
      : ByteSource(std::move(file)), task_(task) {}
  int64_t read(char* to, int64_t size) override {
    check_task(task_);
    const int64_t count = std::min(size, file().size() - at_);
    if (count > 0) file().read(at_, to, count);
    at_ += count;
    return count;
  }

private:
  const Task* task_;
  int64_t at_ = 0;
};

} // namespace

bool is_gzip(const InputFile& file) {
  if (file.path().ends_with(kGzipEnding)) return true;
  if (file.size() < static_cast<int64_t>(kGzipMagic.size())) return false;
  char first[kGzipMagic.size()];
  file.read(0, first, sizeof first);
  return std::string_view(first, sizeof first) == kGzipMagic;
}

std::string content_name(const std::string& path) {
  return path.ends_with(kGzipEnding) ? path.substr(0, path.size() - kGzipEnding.size()) : path;
}

std::unique_ptr<ByteSource> open_bytes(std::shared_ptr<const InputFile> file, const Task* task) {
  if (is_gzip(*file)) return open_gzip(std::move(file), task);
  return std::make_unique<PlainSource>(std::move(file), task);
}

} // namespace dllm::text

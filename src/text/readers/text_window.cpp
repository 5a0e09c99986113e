#include "text/readers/text_window.h"

#include "base/error.h"
#include "base/task.h"
#include "text/readers/readers.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace dllm::text {

namespace {

constexpr std::string_view kGzipEnding = ".gz";
constexpr std::string_view kGzipMagic =
    "\x1F\x8B\x08"; // and the only method of compression, deflate

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

namespace {
constexpr int64_t kWindow = int64_t{1} << 20; // bytes
}

TextWindow::TextWindow(std::unique_ptr<ByteSource> source, int64_t longest_line)
    : source_(std::move(source)), longest_line_(longest_line) {}

// realloc moves the pages of a large window instead of copying them.
void TextWindow::resize(int64_t capacity) {
  char* moved = static_cast<char*>(std::realloc(window_.get(), static_cast<size_t>(capacity)));
  if (moved == nullptr) throw std::bad_alloc();
  static_cast<void>(window_.release());
  window_.reset(moved);
  capacity_ = capacity;
}

void TextWindow::fill(int64_t size) {
  const int64_t held = end_ - begin_;
  if (held > 0 && begin_ > 0)
    std::memmove(window_.get(), window_.get() + begin_, static_cast<size_t>(held));
  begin_ = 0;
  end_ = held;
  // A window that grew for one long line is cut again.
  const bool is_far_too_large = capacity_ > 4 * kWindow && std::max(size, held) <= kWindow;
  if (size > capacity_ || is_far_too_large) resize(std::max(size, kWindow));
  const int64_t room = capacity_ - held;
  const int64_t got = source_->read(window_.get() + held, room);
  end_ += got;
  ended_ = got < room;
}

int64_t TextWindow::find_line_end() {
  std::string_view rest = look(1);
  for (size_t searched = 0;;) {
    const size_t end = rest.find('\n', searched);
    if (end != std::string_view::npos) return static_cast<int64_t>(end) + 1;
    searched = rest.size();
    const auto length = static_cast<int64_t>(searched);
    if (length > longest_line_ + 2) {
      fail_with_hint("cut it into shorter lines", Code::resource_exhausted,
                     "{} line {} has more than {} bytes", path(), line_ + 1, longest_line_);
    }
    rest = look(std::clamp(2 * length, kWindow, std::max(longest_line_ + 3, kWindow)));
    if (rest.size() == searched) return length; // the last line
  }
}

std::optional<std::string_view> TextWindow::next_line() {
  if (at_end()) return std::nullopt;
  const int64_t length = find_line_end();
  if (length > longest_line_ + 2) { // the end of the line does not count
    fail_with_hint("cut it into shorter lines", Code::resource_exhausted,
                   "{} line {} has {} bytes, more than {}", path(), line_ + 1, length,
                   longest_line_);
  }
  ++line_;
  const std::string_view line(window_.get() + begin_, static_cast<size_t>(length));
  skip(length);
  return line;
}

void LineGroup::add(std::string_view raw) {
  if (static_cast<int64_t>(gathered_.size() + raw.size()) > kMaxRecord) {
    fail_with_hint("cut it, or choose other rows", Code::resource_exhausted,
                   "{} line {}: a {} has more than {} bytes", text_.path(), text_.line(), what_,
                   kMaxRecord);
  }
  gathered_ += raw;
}

std::string LineGroup::take() {
  return std::exchange(gathered_, {});
}

} // namespace dllm::text

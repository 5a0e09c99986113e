#include "text/text_window.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::text {

namespace {
constexpr int64_t kWindow = int64_t{1} << 20; // bytes
}

TextWindow::TextWindow(const std::string& path, int64_t longest_line)
    : file_(path), longest_line_(longest_line) {}

std::string_view TextWindow::look(int64_t size) {
  const auto held = static_cast<int64_t>(window_.size());
  const int64_t wanted = std::min(size, left());
  if (at_ < begin_ || at_ + wanted > begin_ + held) {
    window_ = {}; // before the next one is there
    window_ = file_.read(at_, std::min(std::max(wanted, kWindow), left()));
    begin_ = at_;
  }
  return window_.text().substr(static_cast<size_t>(at_ - begin_));
}

void TextWindow::skip(int64_t size) {
  at_ += size;
}

// A line that is longer than the window is first measured, then read into memory of its size.
int64_t TextWindow::find_line_end() {
  std::string_view rest = look(1);
  size_t end = rest.find('\n');
  if (end == std::string_view::npos && static_cast<int64_t>(rest.size()) < std::min(kWindow, left())) {
    rest = look(kWindow);
    end = rest.find('\n');
  }
  if (end != std::string_view::npos) return static_cast<int64_t>(end) + 1;
  int64_t length = static_cast<int64_t>(rest.size());
  while (length < left()) {
    if (length > longest_line_) {
      fail_with_hint("cut it into shorter lines", Code::resource_exhausted,
                     "{} line {} has more than {} bytes", path(), line_ + 1, longest_line_);
    }
    const Bytes more = file_.read(at_ + length, std::min(kWindow, left() - length));
    const size_t found = more.text().find('\n');
    if (found != std::string_view::npos) return length + static_cast<int64_t>(found) + 1;
    length += static_cast<int64_t>(more.size());
  }
  return length;
}

std::optional<std::string_view> TextWindow::next_line() {
  if (left() == 0) return std::nullopt;
  const int64_t length = find_line_end();
  if (length > longest_line_ + 2) { // the end of the line does not count
    fail_with_hint("cut it into shorter lines", Code::resource_exhausted,
                   "{} line {} has {} bytes, more than {}", path(), line_ + 1, length, longest_line_);
  }
  ++line_;
  const std::string_view line = look(length).substr(0, static_cast<size_t>(length));
  skip(length);
  return line;
}

} // namespace dllm::text

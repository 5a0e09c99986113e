#pragma once
// The text of a file seen through a window that moves from front to back, so that a file larger than memory can be
// read; and what readers of lines share.

#include "text/readers/byte_source.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dllm::text {

class TextWindow {
public:
  // longest_line: bytes of a line that next_line() takes.
  TextWindow(std::unique_ptr<ByteSource> source, int64_t longest_line);

  const std::string& path() const { return source_->path(); }
  bool at_end() { return look(1).empty(); }
  int64_t line() const { return line_; } // number of the line that was read last, from 1

  // At least `size` bytes from here on, or all that are left. Valid until the next call.
  std::string_view look(int64_t size);
  void skip(int64_t size) { begin_ += size; } // REQUIRES: at most what the last look() gave
  // The next line with its end; nothing at the end of the text. Valid until the next call.
  // resource_exhausted when it is longer than longest_line.
  std::optional<std::string_view> next_line();

private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  void resize(int64_t capacity);
  // Reads until `size` bytes are held, or the text ends.
  void fill(int64_t size);
  // Bytes up to and with the next line end, or to the end of the text.
  int64_t find_line_end();

  std::unique_ptr<ByteSource> source_;
  int64_t longest_line_;
  std::unique_ptr<char, Free> window_;
  int64_t capacity_ = 0;
  int64_t begin_ = 0, end_ = 0; // of the held bytes, in the window
  bool ended_ = false;          // the source gives no more
  int64_t line_ = 0;
};

// A raw line without its end.
std::string_view without_end(std::string_view line);
bool is_blank(std::string_view text); // white space of ASCII alone, or nothing

// Lines that make one row, up to kMaxRecord bytes.
class LineGroup {
public:
  // what: the name of the row in an error. `text` is where the lines come from, for their number.
  LineGroup(const TextWindow& text, const char* what) : text_(text), what_(what) {}
  void add(std::string_view raw); // fails with resource_exhausted
  std::string take();             // leaves the group empty

private:
  const TextWindow& text_;
  const char* what_;
  std::string gathered_;
};

} // namespace dllm::text

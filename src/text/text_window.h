#pragma once
// A text file seen through a window that moves from front to back, so that a file larger than memory can be read.

#include "base/input_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dllm::text {

class TextWindow {
public:
  // longest_line: bytes of a line that next_line() takes.
  TextWindow(const std::string& path, int64_t longest_line);

  const std::string& path() const { return file_.path(); }
  const FileStamp& stamp() const { return file_.stamp(); }
  int64_t left() const { return file_.size() - at_; }
  int64_t line() const { return line_; } // number of the line that was read last, from 1

  // At least `size` bytes from here on, or all that are left. Valid until the next call.
  std::string_view look(int64_t size);
  void skip(int64_t size); // REQUIRES: size <= left()
  // The next line with its end; nothing at the end of the file. Valid until the next call.
  // resource_exhausted when it is longer than longest_line.
  std::optional<std::string_view> next_line();

private:
  // Bytes up to and with the next line end, or to the end of the file.
  int64_t find_line_end();

  InputFile file_;
  int64_t longest_line_;
  int64_t at_ = 0;    // in the file
  int64_t begin_ = 0; // of the window
  int64_t line_ = 0;
  Bytes window_;
};

} // namespace dllm::text

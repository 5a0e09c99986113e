#pragma once
// The text of a file from front to back: bytes, decompressed where they are gzip, seen through a window that moves, so
// that a file larger than memory can be read; and what readers of lines share.

#include "base/input_file.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dllm {
class Task;
}

namespace dllm::text {

// The content of a file from front to back, decompressed in bounded memory: readers of records see the text alone.
class ByteSource {
public:
  explicit ByteSource(std::shared_ptr<const InputFile> file) : file_(std::move(file)) {}
  virtual ~ByteSource() = default;
  // The next `size` bytes of the content; fewer only where the content ends. data_loss when the file changed.
  virtual int64_t read(char* to, int64_t size) = 0;
  const std::string& path() const { return file_->path(); }

protected:
  const InputFile& file() const { return *file_; }

private:
  std::shared_ptr<const InputFile> file_;
};

// True for content that begins with the magic bytes of gzip, and for every file called NAME.gz: a damaged one is an
// error then, not text.
bool is_gzip(const InputFile& file);
// The name that the content had before it was compressed: without ".gz".
std::string content_name(const std::string& path);

// `task` is checked between pieces of decompressed bytes; it outlives the source and may be null.
std::unique_ptr<ByteSource> open_bytes(std::shared_ptr<const InputFile> file, const Task* task);
// The implementation for gzip (RFC 1952), also of several members in a row. Fails with data_loss naming the file and
// the byte near which it is damaged or cut.
std::unique_ptr<ByteSource> open_gzip(std::shared_ptr<const InputFile> file, const Task* task);

// The text of a file seen through a window that moves from front to back, so that a file larger than memory can be
// read; and what readers of lines share.

class TextWindow {
public:
  // longest_line: bytes of a line that next_line() takes.
  TextWindow(std::unique_ptr<ByteSource> source, int64_t longest_line);

  const std::string& path() const { return source_->path(); }
  bool at_end() { return look(1).empty(); }
  int64_t line() const { return line_; } // number of the line that was read last, from 1

  // At least `size` bytes from here on, or all that are left. Valid until the next call.
  std::string_view look(int64_t size) {
    if (end_ - begin_ < size && !ended_) fill(size);
    return {window_.get() + begin_, static_cast<size_t>(end_ - begin_)};
  }
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
inline std::string_view without_end(std::string_view line) {
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// White space of ASCII alone, or nothing.
inline bool is_blank(std::string_view text) {
  for (const char c : text) {
    if (c != ' ' && (c < 9 || c > 13)) return false;
  }
  return true;
}

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

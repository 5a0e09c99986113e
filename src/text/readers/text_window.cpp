// This file reads the bytes of a file, decompressed if they are gzip, and moves a window over the
// text.
#include "text/readers/readers.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/task.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::text {

namespace {

constexpr std::string_view kGzipEnding = ".gz";
// The magic bytes of gzip, and deflate, its only compression method.
constexpr std::string_view kGzipMagic = "\x1F\x8B\x08";

class PlainSource final : public ByteSource {
public:
  PlainSource(std::shared_ptr<const InputFile> file, const Task* task, int64_t* at)
      : ByteSource(std::move(file), at), task_(task) {}
  int64_t read(char* to, int64_t size) override {
    check_task(task_);
    const int64_t count = std::min(size, file().size() - at_);
    if (count > 0) file().read(at_, to, count);
    at_ += count;
    report(at_);
    return count;
  }

private:
  const Task* task_;
  int64_t at_ = 0;
};

} // namespace

bool is_gzip(const InputFile& file) {
  if (lower_case(file.path()).ends_with(kGzipEnding)) return true;
  if (file.size() < static_cast<int64_t>(kGzipMagic.size())) return false;
  char first[kGzipMagic.size()];
  file.read(0, first, sizeof first);
  return std::string_view(first, sizeof first) == kGzipMagic;
}

std::string content_name(const std::string& path) {
  return lower_case(path).ends_with(kGzipEnding) ? path.substr(0, path.size() - kGzipEnding.size())
                                                 : path;
}

std::unique_ptr<ByteSource> open_bytes(std::shared_ptr<const InputFile> file, const Task* task,
                                       int64_t* at) {
  if (is_gzip(*file)) return open_gzip(std::move(file), task, at);
  return std::make_unique<PlainSource>(std::move(file), task, at);
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
  // A window that grew for one long line shrinks again.
  const bool is_far_too_large = capacity_ > 4 * kWindow && std::max(size, held) <= kWindow;
  if (size > capacity_ || is_far_too_large) resize(std::max(size, kWindow));
  const int64_t room = capacity_ - held;
  const int64_t got = source_->read(window_.get() + held, room);
  end_ += got;
  ended_ = got < room;
  if (!begun_) skip_mark();
}

// Editors of Windows write a byte order mark before UTF-8.
void TextWindow::skip_mark() {
  begun_ = true;
  const std::string_view head(window_.get() + begin_, static_cast<size_t>(end_ - begin_));
  if (head.starts_with("\xEF\xBB\xBF")) begin_ += 3;
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
    fail_with_hint("convert it: iconv -f UTF-16 -t UTF-8", Code::invalid_argument,
                   "{} is UTF-16, not UTF-8", path());
  }
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

// Decompresses gzip (RFC 1952). Members follow one another, and zlib checks the checksum of each.

namespace {

constexpr int64_t kGzipInput = int64_t{64} << 10; // bytes of the file in memory
// Bytes that are decompressed between two checks of the task, in less than 2 ms.
constexpr int64_t kGzipOutput = int64_t{256} << 10;
constexpr int kGzipFormat = 15 + 16; // zlib's code for the largest window and gzip's header
constexpr const char* kGzipHint = "test it with gzip -t, copy it again";

class GzipSource final : public ByteSource {
public:
  GzipSource(std::shared_ptr<const InputFile> file, const Task* task, int64_t* at)
      : ByteSource(std::move(file), at), task_(task), input_(static_cast<size_t>(kGzipInput)) {
    if (inflateInit2(&stream_, kGzipFormat) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  int64_t read(char* to, int64_t size) override {
    int64_t made = 0;
    while (made < size && begin_member()) {
      check_task(task_);
      if (stream_.avail_in == 0 && !refill()) {
        fail_with_hint(kGzipHint, Code::data_loss,
                       "{} ends at byte {}, inside gzip data that begins at byte {}", path(), at(),
                       member_at_);
      }
      const int64_t piece = std::min(size - made, kGzipOutput);
      stream_.next_out = reinterpret_cast<Bytef*>(to + made);
      stream_.avail_out = static_cast<uInt>(piece);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      made += piece - static_cast<int64_t>(stream_.avail_out);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      if (status == Z_STREAM_END) {
        in_member_ = false;
      } else if (status != Z_OK &&
                 status != Z_BUF_ERROR) { // Z_BUF_ERROR: it needs more of the file
        fail_with_hint(kGzipHint, Code::data_loss, "{}: damaged gzip data near byte {}: {}", path(),
                       at(), stream_.msg == nullptr ? "unknown" : stream_.msg);
      }
    }
    return made;
  }

private:
  // Offset in the file of the next byte to decompress.
  int64_t at() const { return read_ - static_cast<int64_t>(stream_.avail_in); }

  bool refill() {
    const int64_t count = std::min(kGzipInput, file().size() - read_);
    if (count <= 0) return false;
    file().read(read_, input_.data(), count);
    read_ += count;
    report(read_);
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(count);
    return true;
  }

  // Begins the next member; returns false at the end of the file. Zeros may follow the last member,
  // because tape blocks are filled with zeros.
  bool begin_member() {
    if (in_member_) return true;
    const bool first = read_ == 0;
    const int64_t end = at();
    if (!first) skip_zeros();
    if (!first && stream_.avail_in == 0) return false;
    if (!first && (at() > end || *stream_.next_in != 0x1F)) {
      fail_with_hint(kGzipHint, Code::data_loss,
                     "{}: the bytes after the gzip data, from byte {} on, are not gzip data",
                     path(), end);
    }
    member_at_ = at();
    in_member_ = inflateReset(&stream_) == Z_OK;
    return in_member_;
  }

  void skip_zeros() {
    while (stream_.avail_in > 0 || refill()) {
      check_task(task_);
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in > 0) return;
    }
  }

  const Task* task_;
  std::vector<Bytef> input_;
  z_stream stream_{};
  int64_t read_ = 0;      // bytes of the file that were read
  int64_t member_at_ = 0; // where the member begins in the file
  bool in_member_ = false;
};

} // namespace

std::unique_ptr<ByteSource> open_gzip(std::shared_ptr<const InputFile> file, const Task* task,
                                      int64_t* at) {
  return std::make_unique<GzipSource>(std::move(file), task, at);
}

} // namespace dllm::text

// Decompression of gzip (RFC 1952): members one after another, each with its own checksum, which zlib compares.
#include "base/error.h"
#include "base/task.h"
#include "text/readers/text_window.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace dllm::text {

namespace {

constexpr int64_t kGzipInput = int64_t{64} << 10; // bytes of the file in memory
constexpr int64_t kGzipOutput = int64_t{256}
                                << 10; // decompressed between two checks of the task: under 2 ms
constexpr int kGzipFormat = 15 + 16;   // zlib's code for the largest window and gzip's header
constexpr const char* kGzipHint = "test it with gzip -t, copy it again";

class GzipSource final : public ByteSource {
public:
  GzipSource(std::shared_ptr<const InputFile> file, const Task* task)
      : ByteSource(std::move(file)), task_(task), input_(static_cast<size_t>(kGzipInput)) {
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
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(count);
    return true;
  }

  // False at the end of the file. Zeros may follow the last member: tape blocks are filled up with them.
  bool begin_member() {
    if (in_member_) return true;
    const bool first = read_ == 0;
    const int64_t end = at();
    if (!first) skip_zeros();
    if (!first && stream_.avail_in == 0) return false;
    if (!first && (at() > end || *stream_.next_in != 0x1F)) {
      fail_with_hint(kGzipHint, Code::data_loss,
                     "{}: what follows the gzip data at byte {} is no gzip data", path(), end);
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

std::unique_ptr<ByteSource> open_gzip(std::shared_ptr<const InputFile> file, const Task* task) {
  return std::make_unique<GzipSource>(std::move(file), task);
}

} // namespace dllm::text

#include "text/parquet/codecs.h"

#include "base/error.h"
#include "base/task.h"
#include "text/parquet/footer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

namespace dllm::text::parquet {

namespace {

constexpr std::array<const char*, 8> kCodecNames = {"uncompressed", "snappy", "gzip", "lzo",
                                                    "brotli",       "lz4",    "zstd", "lz4_raw"};
// zlib's code for the largest window, and a header of zlib or gzip.
constexpr int kAnyHeader = 15 + 32;

std::string codec_name(int64_t codec) {
  const auto index = static_cast<size_t>(codec);
  return index < kCodecNames.size() ? kCodecNames[index] : fmt::format("number {}", codec);
}

} // namespace

void check_codec(int64_t codec, const std::string& where) {
  if (codec == kUncompressed || codec == kSnappy || codec == kGzip) return;
  if (codec == kZstd) {
    if (has_zstd()) return;
    fail_with_hint(
        "install libzstd-dev and build dllm again, or write the file with snappy or gzip",
        Code::unimplemented, "{} is compressed by zstd, which this build does not read", where);
  }
  fail_with_hint("write the file with zstd, snappy or gzip", Code::unimplemented,
                 "{} is compressed by {}", where, codec_name(codec));
}

void decompress(int64_t codec, std::string_view from, char* to, size_t size,
                const std::string& where, const Task* task) {
  bool done = false;
  if (codec == kSnappy) done = decompress_snappy(from, to, size, task);
  if (codec == kGzip) done = decompress_gzip(from, to, size, task);
  if (codec == kZstd) done = decompress_zstd(from, to, size, task);
  if (done) return;
  fail_with_hint(kCopyHint, Code::data_loss,
                 "{}: the {} data of a page are damaged, or do not have {} bytes", where,
                 codec_name(codec), size);
}

bool decompress_gzip(std::string_view from, char* to, size_t size, const Task* task) {
  constexpr size_t kPiece = size_t{256} << 10;
  z_stream stream{};
  if (inflateInit2(&stream, kAnyHeader) != Z_OK) throw std::bad_alloc();
  const struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data())); // zlib only reads it
  stream.avail_in = static_cast<uInt>(from.size());
  // Room for one byte more than the page, to find data that hold more.
  char more = 0;
  for (size_t made = 0;;) {
    check_task(task);
    const size_t piece = made < size ? std::min(kPiece, size - made) : 1;
    stream.next_out = reinterpret_cast<Bytef*>(made < size ? to + made : &more);
    stream.avail_out = static_cast<uInt>(piece);
    const int status = inflate(&stream, Z_NO_FLUSH);
    const size_t got = piece - stream.avail_out;
    if (made == size && got > 0) return false;
    made += got;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_STREAM_END && stream.avail_in > 0 && made < size) {
      if (inflateReset(&stream) != Z_OK) return false; // members in a row
    } else if (status == Z_STREAM_END) {
      return made == size;
    } else if (status != Z_OK) {
      return false;
    }
  }
}

} // namespace dllm::text::parquet

#pragma once
// Content as gzip(1) writes it.

#include <zlib.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

namespace dllm::test {

// `text`, `times` times in a row, as one member. Costs the memory of the result alone.
inline std::string gzip_repeated(std::string_view text, size_t times) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string made, block;
  while (!text.empty() && block.size() < 65536 && block.size() / text.size() < times) block += text;
  const size_t in_block = text.empty() ? 1 : block.size() / text.size();
  char out[65536];
  bool done = false;
  for (size_t left = text.empty() ? 0 : times; !done;) {
    const size_t now = std::min(left, in_block);
    left -= now;
    stream.next_in = reinterpret_cast<Bytef*>(block.data());
    stream.avail_in = static_cast<uInt>(now * text.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out);
      stream.avail_out = sizeof out;
      done = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_END;
      made.append(out, sizeof out - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return made;
}

inline std::string gzip(std::string_view text) {
  return gzip_repeated(text, 1);
}

} // namespace dllm::test

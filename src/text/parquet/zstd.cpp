// This file decompresses Zstandard with libzstd. Builds without libzstd use no_zstd.cpp.
#include "base/task.h"
#include "text/parquet/codecs.h"

#include <zstd.h>

#include <algorithm>
#include <memory>
#include <new>

namespace dllm::text::parquet {

bool has_zstd() {
  return true;
}

bool decompress_zstd(std::string_view from, char* to, size_t size, const Task* task) {
  constexpr size_t kPiece = size_t{256} << 10;
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  if (stream == nullptr) throw std::bad_alloc();
  // A frame may request a window of any size; the zstd program accepts up to 128 MiB.
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, 27);
  ZSTD_inBuffer in{from.data(), from.size(), 0};
  size_t made = 0, left = 1; // left: 0 at the end of a frame
  while (in.pos < in.size || left != 0) {
    check_task(task);
    const size_t before = in.pos;
    ZSTD_outBuffer out{to + made, std::min(kPiece, size - made), 0};
    left = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(left) != 0) return false;
    made += out.pos;
    if (out.pos == 0 && in.pos == before) return false; // cut, or more than `size` bytes
  }
  return made == size;
}

} // namespace dllm::text::parquet

// A build without libzstd uses this file; check_codec() then refuses Zstandard.
#include "text/parquet/codecs.h"

namespace dllm::text::parquet {

bool has_zstd() {
  return false;
}

bool decompress_zstd(std::string_view, char*, size_t, const Task*) {
  return false;
}

} // namespace dllm::text::parquet

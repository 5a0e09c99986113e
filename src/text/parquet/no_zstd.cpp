// A build without libzstd: files that it compressed are refused by check_codec().
#include "text/parquet/codecs.h"

namespace dllm::text::parquet {

bool has_zstd() {
  return false;
}

bool decompress_zstd(std::string_view, char*, size_t, const Task*) {
  return false;
}

} // namespace dllm::text::parquet

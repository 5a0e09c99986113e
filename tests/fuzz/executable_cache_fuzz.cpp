// Any bytes as a file of the executable cache: what is accepted is exactly what would be written
// for it. And any bytes as a program: it comes back, and not when a byte of its file was changed.

#include "pjrt/cache/executable_cache.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm::pjrt;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string key = "0123456789abcdef";
  if (const auto program = cached_program(bytes, key)) {
    if (cache_file_head(key, *program).append(*program) != bytes) std::abort();
  }
  std::string file = cache_file_head(key, bytes).append(bytes);
  if (cached_program(file, key) != bytes) std::abort();
  if (cached_program(file, "0123456789abcdee")) std::abort();
  const size_t place = size > 0 ? (data[0] * 257u + size) % file.size() : 0;
  file[place] = static_cast<char>(file[place] + 1);
  if (cached_program(file, key)) std::abort();
  return 0;
}

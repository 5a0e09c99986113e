#pragma once
// The compressions of Parquet's pages that are read: none, Snappy, gzip, and Zstandard where the build has it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::text::parquet {

// Codes of the file.
constexpr int64_t kUncompressed = 0, kSnappy = 1, kGzip = 2, kZstd = 6;

// unimplemented for a compression that is not read, naming it and what to do. where: names the bytes in errors.
void check_codec(int64_t codec, const std::string& where);
// Fills `size` bytes from all of `from`; data_loss when that is not exactly what they hold. The task is checked between
// pieces of 256 KiB. REQUIRES: check_codec() passed, codec is not kUncompressed.
void decompress(int64_t codec, std::string_view from, char* to, size_t size,
                const std::string& where, const Task* task);

// One function a codec, in files of their own. False: the bytes are damaged, or hold another number of bytes.
bool decompress_snappy(std::string_view from, char* to, size_t size, const Task* task);
bool decompress_gzip(std::string_view from, char* to, size_t size, const Task* task);
bool decompress_zstd(std::string_view from, char* to, size_t size, const Task* task);
bool has_zstd();

} // namespace dllm::text::parquet

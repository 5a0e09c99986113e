#pragma once
// These functions decompress Parquet pages: Snappy, gzip, and Zstandard where the build has it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::text::parquet {

// Codes of the compressions in the file.
constexpr int64_t kUncompressed = 0, kSnappy = 1, kGzip = 2, kZstd = 6;

// Fails with unimplemented for a compression that is not supported, naming it, with a hint. `where`
// names the bytes in errors.
void check_codec(int64_t codec, const std::string& where);
// Decompresses `from` into `size` bytes. Fails with data_loss unless `from` holds exactly `size`
// bytes. Checks the task between pieces of 256 KiB. REQUIRES: check_codec() passed, codec is not
// kUncompressed.
void decompress(int64_t codec, std::string_view from, char* to, size_t size,
                const std::string& where, const Task* task);

// Each of these functions decompresses one codec and has its own source file. It returns false when
// `from` is damaged or holds another number of bytes than `size`.
bool decompress_snappy(std::string_view from, char* to, size_t size, const Task* task);
bool decompress_gzip(std::string_view from, char* to, size_t size, const Task* task);
bool decompress_zstd(std::string_view from, char* to, size_t size, const Task* task);
bool has_zstd();

} // namespace dllm::text::parquet

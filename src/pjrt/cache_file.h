#pragma once
// A compiled program as a file of the cache. Little-endian: magic "dllmexe\n", u32 version, u32
// length of the key, u64 length of the program, SHA-256 over key and program (32 bytes); then the
// key, then the program, then nothing.

#include <optional>
#include <string>
#include <string_view>

namespace dllm::pjrt {

// All of the file before the program.
std::string cache_file_head(std::string_view key, std::string_view program);
// The program inside `file`; nothing for a file of another key or version, a cut one, one with a
// changed bit, or one that was never ours. Lends bytes of `file`.
std::optional<std::string_view> cached_program(std::string_view file, std::string_view key);

} // namespace dllm::pjrt

#pragma once
// The byte alphabet of GPT-2: every byte has one printable character, so that a vocabulary is text.
// 188 bytes are themselves; the other 68 become U+0100 onwards, in order.

#include <string>
#include <string_view>

namespace dllm::text {

char32_t byte_char(unsigned char byte);
// -1: the character stands for no byte.
int char_byte(char32_t code);
// Appends the characters of all bytes.
void append_byte_chars(std::string& out, std::string_view bytes);
// The bytes of a token; false (and nothing appended) when a character stands for none.
bool append_bytes(std::string& out, std::string_view token);

// The word pattern of GPT-2.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

} // namespace dllm::text

#pragma once
// UTF-8 and the few character properties that tokenizers need, over utf8proc.

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::text {

// One decoded character, or one byte that is not part of any.
struct Char {
  char32_t code = 0;
  int size = 0; // bytes used, 1 to 4; 1 when not valid
  bool valid = false;
};

// REQUIRES: at < text.size(). Strict: no surrogates, no overlong forms, nothing above U+10FFFF.
Char char_at(std::string_view text, size_t at);
// The character that ends at `end`. REQUIRES: 0 < end <= text.size() and valid UTF-8 before it.
Char char_before(std::string_view text, size_t end);
void append_utf8(std::string& out, char32_t code);
std::string to_utf8(char32_t code);

bool is_valid_utf8(std::string_view text);
// Bytes from `begin` up to the first byte that is no character.
size_t valid_utf8_end(std::string_view text, size_t begin);
// Each maximal broken piece becomes one U+FFFD (the practice of the Unicode standard, chapter 3.9).
std::string replace_invalid(std::string_view text);
// Bytes at the end that begin a character and wait for more bytes: 0 to 3.
size_t unfinished_tail(std::string_view text);

enum class Form { nfc, nfd, nfkc, nfkd };
// REQUIRES: valid UTF-8. Linear in the size of the text, whatever stands in it.
std::string normalize(std::string_view text, Form form);
// One character after another with its full mapping (U+0130 gives two), without the context of the
// final sigma.
std::string lowercase(std::string_view text);

bool is_whitespace(char32_t code);  // White_Space
bool is_numeric(char32_t code);     // Nd, Nl, No
bool is_decimal(char32_t code);     // Nd
bool is_punctuation(char32_t code); // P*
bool is_ascii_punctuation(char32_t code);
bool is_mark(char32_t code);            // M*
bool is_nonspacing_mark(char32_t code); // Mn
bool is_other(char32_t code);           // Cc, Cf, Cs, Co: control, format, private
bool is_word(char32_t code);            // Alphabetic, M*, Nd, Pc, join controls: \w of Unicode TR18

} // namespace dllm::text

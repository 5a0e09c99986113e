#pragma once
// These functions read and write UTF-8 and return the character properties that tokenizers need
// (with utf8proc).

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::text {

// One decoded character, or one byte that is not part of a character.
struct Char {
  char32_t code = 0;
  int size = 0; // bytes used, 1 to 4; 1 when not valid
  bool valid = false;
};

// Decodes the character at byte `at`. Surrogates, overlong forms and codes above U+10FFFF are not
// valid. REQUIRES: at < text.size().
Char char_at(std::string_view text, size_t at);
// Returns the character before byte `end`. REQUIRES: 0 < end <= text.size(), valid UTF-8 before it.
Char char_before(std::string_view text, size_t end);
void append_utf8(std::string& out, char32_t code);
std::string to_utf8(char32_t code);

bool is_valid_utf8(std::string_view text);
// Returns the end of the valid characters that follow byte `begin`.
size_t valid_utf8_end(std::string_view text, size_t begin);
// Replaces each maximal broken piece by one U+FFFD (Unicode standard, chapter 3.9).
std::string replace_invalid(std::string_view text);
// Returns the number of bytes at the end that begin an incomplete character, 0 to 3.
size_t unfinished_tail(std::string_view text);

enum class Form { nfc, nfd, nfkc, nfkd };
// Takes time linear in the size of any text. REQUIRES: valid UTF-8.
std::string normalize(std::string_view text, Form form);
// Maps every character on its own, with its full mapping (U+0130 becomes two characters). A final
// sigma is not treated differently.
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

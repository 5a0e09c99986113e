#include "text/byte_level.h"

#include "text/unicode.h"

#include <array>

namespace dllm::text {

namespace {

struct Alphabet {
  std::array<char32_t, 256> chars{};
  std::array<int, 0x144> bytes{}; // U+0143 is the last one used
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (int& byte : a.bytes) byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const char32_t code = printable ? static_cast<char32_t>(byte) : next++;
    a.chars[static_cast<size_t>(byte)] = code;
    a.bytes[code] = byte;
  }
  return a;
}

constexpr Alphabet kAlphabet = make_alphabet();

} // namespace

char32_t byte_char(unsigned char byte) {
  return kAlphabet.chars[byte];
}

int char_byte(char32_t code) {
  return code < kAlphabet.bytes.size() ? kAlphabet.bytes[code] : -1;
}

void append_byte_chars(std::string& out, std::string_view bytes) {
  for (char c : bytes) append_utf8(out, byte_char(static_cast<unsigned char>(c)));
}

bool append_bytes(std::string& out, std::string_view token) {
  const size_t before = out.size();
  for (size_t at = 0; at < token.size();) {
    const Char c = char_at(token, at);
    const int byte = c.valid ? char_byte(c.code) : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    at += static_cast<size_t>(c.size);
  }
  return true;
}

} // namespace dllm::text

#ifndef DLLM_CPP_JSON_HPP
#define DLLM_CPP_JSON_HPP
// Reads the JSON that the library writes, which is always valid.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
inline namespace api {

// One value of a JSON text. It refers to the text, which must live longer.
class JsonText {
public:
  explicit JsonText(std::string_view text) : text_(value_at(text, 0)) {}

  // Returns the value as it is written.
  std::string_view written() const noexcept { return text_; }

  // Returns the value of a key of an object. A key that the object does not have gives an empty
  // text.
  JsonText operator[](std::string_view key) const {
    const std::vector<JsonText> parts = items();
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      if (parts[i].text() == key) return parts[i + 1];
    }
    return JsonText({});
  }
  // Returns the values of a list, or the keys and values of an object in turn.
  std::vector<JsonText> items() const {
    std::vector<JsonText> parts;
    for (std::size_t at = begin_of(text_, 1); at + 1 < text_.size();) {
      parts.push_back(JsonText(text_.substr(at)));
      at = begin_of(text_, at + parts.back().text_.size());
    }
    return parts;
  }
  // Returns a whole number, or 0 for another value.
  int64_t whole() const noexcept {
    int64_t number = 0;
    std::from_chars(text_.data(), text_.data() + text_.size(), number);
    return number;
  }
  // Returns a number, or 0 for another value.
  double number() const { return std::strtod(std::string(text_).c_str(), nullptr); }
  // Returns a text without its quotes and escapes.
  std::string text() const {
    std::string out;
    for (std::size_t at = 1; at + 1 < text_.size(); ++at) {
      if (text_[at] != '\\') {
        out += text_[at];
      } else if (text_[++at] != 'u') {
        out += unescaped(text_[at]);
      } else {
        append(out, code_at(at));
      }
    }
    return out;
  }

private:
  // Returns the position of the next value, after spaces and the signs between two values.
  static std::size_t begin_of(std::string_view text, std::size_t at) noexcept {
    const std::size_t found = text.find_first_not_of(" \n\r\t,:", at);
    return found == std::string_view::npos ? text.size() : found;
  }
  // Returns the first value that begins at a position or after it.
  static std::string_view value_at(std::string_view text, std::size_t at) noexcept {
    at = begin_of(text, at);
    std::size_t end = at;
    int depth = 0;
    while (end < text.size()) {
      const char c = text[end];
      if (depth == 0 && end > at && std::string_view(",]} \n\r\t:").find(c) != text.npos) break;
      if (c == '"') end = end_of_text(text, end);
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      ++end;
      if (depth == 0 && (c == '"' || c == ']' || c == '}')) break;
    }
    return text.substr(at, end - at);
  }
  // Returns the position of the quote that ends a text.
  static std::size_t end_of_text(std::string_view text, std::size_t at) noexcept {
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\') ++at;
    }
    return at;
  }
  static char unescaped(char c) noexcept {
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'b': return '\b';
    case 'f': return '\f';
    default: return c;
    }
  }
  // Returns the code point whose escape has its u at a position, and moves to its last character.
  uint32_t code_at(std::size_t& at) const noexcept {
    const uint32_t unit = unit_at(at);
    at += 4;
    if (unit < 0xd800 || unit > 0xdbff || text_.substr(at + 1, 2) != "\\u") return unit;
    at += 2;
    const uint32_t low = unit_at(at);
    at += 4;
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  }
  uint32_t unit_at(std::size_t at) const noexcept {
    uint32_t unit = 0;
    const std::string_view digits = text_.substr(at + 1, 4);
    std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    return unit;
  }
  // Appends a code point as UTF-8.
  static void append(std::string& out, uint32_t code) {
    const auto last = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      last(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | code >> 12);
      last(6);
      last(0);
    } else {
      out += static_cast<char>(0xf0 | code >> 18);
      last(12);
      last(6);
      last(0);
    }
  }

  std::string_view text_;
};

} // namespace api
} // namespace dllm
#endif

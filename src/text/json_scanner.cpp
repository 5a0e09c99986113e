#include "text/json_reader.h"

#include "base/error.h"
#include "text/unicode.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace dllm::text {

namespace {
constexpr size_t kMaxNesting = 64;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Returns the offset of the first quote, backslash or control character from `at` on. It tests
// eight bytes at a time (Mycroft 1987: (v - 0x01...) & ~v has the high bit of each byte that is
// zero).
size_t plain_end(std::string_view text, size_t at) {
  constexpr uint64_t kOnes = 0x0101010101010101u, kHigh = 0x80 * kOnes;
  for (uint64_t word; at < text.size() && text.size() - at >= sizeof word; at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    const uint64_t quote = word ^ ('"' * kOnes), escape = word ^ ('\\' * kOnes);
    const uint64_t found = (((quote - kOnes) & ~quote) | ((escape - kOnes) & ~escape) |
                            ((word - 0x20 * kOnes) & ~word)) &
                           kHigh;
    if (found != 0) break; // in these eight bytes
  }
  const auto is_plain = [](char c) {
    return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
  };
  while (at < text.size() && is_plain(text[at])) ++at;
  return at;
}
} // namespace

JsonScanner::JsonScanner(std::string_view text, const std::string& where)
    : text_(text), where_(where) {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

void JsonScanner::bad() const {
  const size_t good = valid_utf8_end(text_, 0);
  if (good < text_.size()) {
    fail_with_hint("text of another encoding: iconv -f WINDOWS-1252 -t UTF-8", Code::data_loss,
                   "{} is not UTF-8 at byte {}", where_, good + 1);
  }
  fail(Code::data_loss, "{} is not valid JSON near byte {}", where_, at_ + 1);
}

char JsonScanner::next() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
  if (at_ == text_.size()) return 0;
  const char c = text_[at_];
  return c == '-' || is_digit(c) ? '0' : c;
}

const char* JsonScanner::next_type() {
  switch (next()) {
  case '{': return "object";
  case '[': return "array";
  case '"': return "string";
  case '0': return "number";
  case 't':
  case 'f': return "boolean";
  case 'n': return "null";
  default: bad();
  }
}

void JsonScanner::open(char c) {
  if (next() != c) bad();
  if (fresh_.size() >= kMaxNesting)
    fail(Code::data_loss, "{} is nested deeper than {}", where_, kMaxNesting);
  fresh_.push_back(true);
  ++at_;
}

// Reads the comma before another member, or the end of the object or array.
bool JsonScanner::more(char close) {
  const char c = next();
  const bool first = fresh_.back();
  fresh_.back() = false;
  if (c == close) {
    ++at_;
    fresh_.pop_back();
    return false;
  }
  if (first) return true;
  if (c != ',') bad();
  ++at_;
  return true;
}

bool JsonScanner::next_key(std::string& key) {
  if (!more('}')) return false;
  if (next() != '"') bad();
  key = string();
  if (next() != ':') bad();
  ++at_;
  return true;
}

bool JsonScanner::next_item() {
  return more(']');
}

std::string_view JsonScanner::raw_string() {
  const size_t begin = ++at_;
  while ((at_ = plain_end(text_, at_)) < text_.size() && text_[at_] != '"') {
    if (text_[at_] != '\\') bad();
    at_ += 2;
  }
  if (at_ >= text_.size()) {
    at_ = text_.size();
    bad();
  }
  const std::string_view raw = text_.substr(begin, at_ - begin);
  if (const size_t good = valid_utf8_end(raw, 0); good < raw.size()) {
    at_ = begin + good;
    bad();
  }
  ++at_;
  return raw;
}

uint32_t JsonScanner::hex4(std::string_view raw, size_t at) const {
  uint32_t value = 0;
  const char* begin = raw.data() + at;
  if (at + 4 > raw.size()) bad();
  const auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
  if (error != std::errc() || end != begin + 4) bad();
  return value;
}

std::string JsonScanner::string() {
  const std::string_view raw = raw_string();
  std::string made;
  made.reserve(raw.size());
  for (size_t at = 0; at < raw.size();) {
    const size_t escape = std::min(raw.find('\\', at), raw.size());
    made.append(raw, at, escape - at);
    if (escape == raw.size()) break;
    at = escape + 2;
    switch (raw[escape + 1]) {
    case '"': made.push_back('"'); break;
    case '\\': made.push_back('\\'); break;
    case '/': made.push_back('/'); break;
    case 'b': made.push_back('\b'); break;
    case 'f': made.push_back('\f'); break;
    case 'n': made.push_back('\n'); break;
    case 'r': made.push_back('\r'); break;
    case 't': made.push_back('\t'); break;
    case 'u': {
      char32_t code = hex4(raw, at);
      at += 4;
      if (code >= 0xDC00 && code <= 0xDFFF) bad();
      if (code >= 0xD800 && code <= 0xDBFF) { // the first of a pair
        if (raw.substr(at, 2) != "\\u") bad();
        const uint32_t low = hex4(raw, at + 2);
        if (low < 0xDC00 || low > 0xDFFF) bad();
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
      }
      append_utf8(made, code);
      break;
    }
    default: bad();
    }
  }
  return made;
}

std::string_view JsonScanner::number() {
  const size_t begin = at_;
  const auto digits = [&] {
    if (at_ == text_.size() || !is_digit(text_[at_])) bad();
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  if (text_[at_] == '-') ++at_;
  if (at_ < text_.size() && text_[at_] == '0')
    ++at_;
  else
    digits();
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    digits();
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    digits();
  }
  return text_.substr(begin, at_ - begin);
}

bool JsonScanner::integer(int64_t& value) {
  const std::string_view word = number();
  const char* end = word.data() + word.size();
  const auto [last, error] = std::from_chars(word.data(), end, value);
  return error == std::errc() && last == end;
}

void JsonScanner::take(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) bad();
  at_ += word.size();
}

void JsonScanner::skip() {
  switch (next()) {
  case '{': {
    std::string key;
    open_object();
    while (next_key(key)) skip();
    return;
  }
  case '[':
    open_array();
    while (next_item()) skip();
    return;
  case '"': string(); return; // escapes are checked where they are decoded
  case '0': number(); return;
  case 't': return take("true");
  case 'f': return take("false");
  case 'n': return take("null");
  default: bad();
  }
}

void JsonScanner::end() {
  next();
  if (at_ != text_.size()) bad();
}

} // namespace dllm::text

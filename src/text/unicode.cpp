#include "text/unicode.h"

#include "base/error.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace dllm::text {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD"; // U+FFFD

int sequence_size(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// The second byte has a narrower range after some lead bytes (Unicode standard, table 3-7).
bool continues(unsigned char lead, int index, unsigned char byte) {
  unsigned char low = 0x80, high = 0xBF;
  if (index == 1) {
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  return byte >= low && byte <= high;
}

// The number of bytes that correctly begin a character, and the number of bytes that it needs.
struct Prefix {
  int good;
  int wanted;
};

Prefix prefix_at(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const int wanted = sequence_size(lead);
  if (wanted == 0) return {0, 0};
  int good = 1;
  while (good < wanted && at + static_cast<size_t>(good) < text.size() &&
         continues(lead, good, static_cast<unsigned char>(text[at + static_cast<size_t>(good)]))) {
    ++good;
  }
  return {good, wanted};
}

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

} // namespace

Char char_at(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1, true};
  const Prefix prefix = prefix_at(text, at);
  if (prefix.wanted == 0 || prefix.good < prefix.wanted) return {lead, 1, false};
  char32_t code = lead & (0xFFu >> (prefix.wanted + 1));
  for (int i = 1; i < prefix.wanted; ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[at + static_cast<size_t>(i)]) & 0x3Fu);
  }
  return {code, prefix.wanted, true};
}

Char char_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
    --begin;
  return char_at(text, begin);
}

void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
    return;
  }
  const int extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const unsigned lead = extra == 1 ? 0xC0 : extra == 2 ? 0xE0 : 0xF0;
  out.push_back(static_cast<char>(lead | (code >> (6 * extra))));
  for (int i = extra - 1; i >= 0; --i) {
    out.push_back(static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F)));
  }
}

std::string to_utf8(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

// Returns the end of the ASCII bytes from `begin` on; tests eight bytes at a time.
static size_t ascii_end(std::string_view text, size_t begin) {
  constexpr uint64_t kHigh = 0x8080808080808080u;
  for (uint64_t word; text.size() - begin >= sizeof word; begin += sizeof word) {
    std::memcpy(&word, text.data() + begin, sizeof word);
    if ((word & kHigh) != 0) break;
  }
  while (begin < text.size() && static_cast<unsigned char>(text[begin]) < 0x80) ++begin;
  return begin;
}

size_t valid_utf8_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    begin = ascii_end(text, begin);
    if (begin == text.size()) break;
    const Char c = char_at(text, begin);
    if (!c.valid) break;
    begin += static_cast<size_t>(c.size);
  }
  return begin;
}

bool is_valid_utf8(std::string_view text) {
  return valid_utf8_end(text, 0) == text.size();
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = valid_utf8_end(text, at);
    out.append(text.substr(at, end - at));
    at = end;
    if (at == text.size()) break;
    out.append(kReplacement);
    const int good = prefix_at(text, at).good;
    at += static_cast<size_t>(good > 0 ? good : 1);
  }
  return out;
}

size_t unfinished_tail(std::string_view text) {
  for (size_t size = 1; size <= 3 && size <= text.size(); ++size) {
    const size_t at = text.size() - size;
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    const Prefix prefix = prefix_at(text, at);
    const bool waits = prefix.wanted > prefix.good && prefix.good == static_cast<int>(size);
    return waits ? size : 0;
  }
  return 0;
}

namespace {

using CodePoint = utf8proc_int32_t;

int combining_class(CodePoint code) {
  return utf8proc_get_property(code)->combining_class;
}

// Appends the full decomposition of one character.
void decompose(char32_t code, utf8proc_option_t options, std::vector<CodePoint>& out) {
  constexpr size_t kLongest = 18; // U+FDFA under NFKD
  const size_t begin = out.size();
  out.resize(begin + kLongest);
  int boundary = 0;
  const auto made = utf8proc_decompose_char(static_cast<CodePoint>(code), out.data() + begin,
                                            kLongest, options, &boundary);
  if (made < 0 || made > static_cast<utf8proc_ssize_t>(kLongest))
    fail(Code::internal, "[normalize] U+{:04X}: {}", static_cast<uint32_t>(code),
         utf8proc_errmsg(made));
  out.resize(begin + static_cast<size_t>(made));
}

// Canonical order (Unicode standard, D108 and D109): every run of characters with a combining class
// other than 0 is sorted by it, equal ones stay in order. utf8proc sorts by exchanging neighbours,
// which is quadratic in the length of a run; counting the 255 classes is linear and gives the same.
void order_marks(std::vector<CodePoint>& codes) {
  std::vector<CodePoint> sorted;
  for (size_t begin = 0; begin < codes.size();) {
    size_t end = begin;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    const auto first = codes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = codes.begin() + static_cast<std::ptrdiff_t>(end);
    constexpr size_t kFew = 32;
    if (end - begin <= kFew) {
      std::stable_sort(first, last, [](CodePoint a, CodePoint b) {
        return combining_class(a) < combining_class(b);
      });
    } else {
      std::array<size_t, 257> at{};
      for (auto code = first; code != last; ++code)
        ++at[static_cast<size_t>(combining_class(*code)) + 1];
      for (size_t i = 1; i < at.size(); ++i) at[i] += at[i - 1];
      sorted.resize(end - begin);
      for (auto code = first; code != last; ++code)
        sorted[at[static_cast<size_t>(combining_class(*code))]++] = *code;
      std::copy(sorted.begin(), sorted.end(), first);
    }
    begin = end + 1;
  }
}

// Normalizes `text` at the end of `out`.
void append_normalized(std::string& out, std::string_view text, utf8proc_option_t options,
                       std::vector<CodePoint>& codes) {
  codes.clear();
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    decompose(c.code, options, codes);
    at += static_cast<size_t>(c.size);
  }
  order_marks(codes);
  auto count = static_cast<utf8proc_ssize_t>(codes.size());
  if ((options & UTF8PROC_COMPOSE) != 0)
    count = utf8proc_normalize_utf32(codes.data(), count, options);
  if (count < 0)
    fail(Code::internal, "[normalize] {} bytes: {}", text.size(), utf8proc_errmsg(count));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    append_utf8(out, static_cast<char32_t>(codes[i]));
}

bool is_ascii_byte(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

} // namespace

std::string normalize(std::string_view text, Form form) {
  int options = UTF8PROC_STABLE;
  if (form == Form::nfc || form == Form::nfkc) options |= UTF8PROC_COMPOSE;
  if (form == Form::nfd || form == Form::nfkd) options |= UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  std::string out;
  out.reserve(text.size());
  std::vector<CodePoint> codes;
  for (size_t at = 0; at < text.size();) {
    size_t plain = at;
    while (plain < text.size() && is_ascii_byte(text[plain])) ++plain;
    // No form changes ASCII, but its last character may take marks that follow.
    const bool ends = plain == text.size();
    const size_t begin = ends || plain == at ? plain : plain - 1;
    out.append(text.substr(at, begin - at));
    if (ends) break;
    size_t end = plain;
    while (end < text.size() && !is_ascii_byte(text[end])) ++end;
    append_normalized(out, text.substr(begin, end - begin), static_cast<utf8proc_option_t>(options),
                      codes);
    at = end;
  }
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if (!c.valid) {
      out.push_back(text[at]);
    } else if (c.code == 0x130) { // the one character whose lower case is two
      out.append("i\xCC\x87");
    } else {
      append_utf8(out,
                  static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))));
    }
    at += static_cast<size_t>(c.size);
  }
  return out;
}

bool is_whitespace(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
  if (code == 0x85) return true;
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool is_numeric(char32_t code) {
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_decimal(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_ND;
}

bool is_punctuation(char32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_ascii_punctuation(char32_t code) {
  return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
         (code >= 123 && code <= 126);
}

bool is_mark(char32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_MN;
}

bool is_other(char32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_CC && c <= UTF8PROC_CATEGORY_CO;
}

bool is_word(char32_t code) {
  if (code < 0x80) {
    return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
           (code >= 'A' && code <= 'Z') || code == '_';
  }
  const auto c = category(code);
  if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) return true; // L*, M*, Nd, Nl
  if (c == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D) return true;
  // Other_Alphabetic outside marks: circled and squared Latin letters.
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

} // namespace dllm::text

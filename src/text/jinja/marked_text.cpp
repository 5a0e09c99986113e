// This file has marked texts, and prints values to marked texts as Python prints them.
#include "text/jinja/template.h"

#include "text/jinja/evaluator.h"
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dllm::text::jinja {

MarkedText::MarkedText(std::string bytes, Mark mark) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), mark});
}

size_t MarkedText::run_of(size_t at) const {
  const auto found = std::upper_bound(runs_.begin(), runs_.end(), at,
                                      [](size_t value, const Run& run) { return value < run.end; });
  return static_cast<size_t>(found - runs_.begin());
}

Mark MarkedText::mark_at(size_t at) const {
  return runs_[run_of(at)].mark;
}

void MarkedText::append(std::string_view bytes, Mark mark) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().mark == mark) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), mark});
  }
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  end = std::min(end, other.size());
  const std::string_view bytes = other.bytes_;
  for (size_t run = begin < end ? other.run_of(begin) : 0; begin < end; ++run) {
    const size_t stop = std::min(end, other.runs_[run].end);
    append(bytes.substr(begin, stop - begin), other.runs_[run].mark);
    begin = stop;
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

void MarkedText::mark_spoken() {
  for (Run& run : runs_) run.mark.spoken = true;
}

// The functions below serve filters and methods of texts. Every piece keeps its mark.

namespace {

bool taken(const Char& c, std::string_view raw, const std::string* characters) {
  if (characters == nullptr) return c.valid && is_whitespace(c.code);
  return characters->find(raw) != std::string::npos;
}

// Returns the capitals of a letter, or for a title the capital of its first part. A letter may have
// several capitals: "ﬁ" is "FI".
std::string capitals(char32_t letter, bool whole) {
  const auto code = static_cast<utf8proc_int32_t>(letter);
  const auto upper = [](utf8proc_int32_t part) {
    return to_utf8(static_cast<char32_t>(utf8proc_toupper(part)));
  };
  const utf8proc_int32_t title = utf8proc_totitle(code);
  constexpr utf8proc_int32_t kSharpS = 0x1E9E; // no capital of "ß" in Unicode
  if (!whole && title != code && title != kSharpS) return to_utf8(static_cast<char32_t>(title));
  utf8proc_int32_t parts[8];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(code, parts, 8, UTF8PROC_CASEFOLD, &boundary);
  const auto category = utf8proc_category(code);
  const bool is_small = category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
  if (count < 2 || count > 8 || !is_small) return upper(code);
  std::string out = upper(parts[0]);
  const bool goes_on = whole || utf8proc_toupper(parts[0]) == parts[0];
  for (int i = 1; i < count; ++i)
    out += goes_on ? upper(parts[i]) : to_utf8(static_cast<char32_t>(parts[i]));
  return out;
}

std::string cased(std::string_view raw, const Char& c, bool upper, bool whole) {
  if (!c.valid) return std::string(raw);
  return upper ? capitals(c.code, whole) : lowercase(raw);
}

bool is_letter(const Char& c) {
  return c.valid && is_word(c.code) && !is_numeric(c.code) && !is_mark(c.code) && c.code != '_';
}

} // namespace

MarkedText strip(const MarkedText& text, const Value* characters, bool left, bool right) {
  const std::string* set = nullptr;
  if (characters != nullptr && !characters->is_none()) {
    set = &need_text(*characters, "the characters to strip").bytes();
  }
  const std::string_view bytes = text.bytes();
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    const Char c = char_at(bytes, begin);
    if (!taken(c, bytes.substr(begin, static_cast<size_t>(c.size)), set)) break;
    begin += static_cast<size_t>(c.size);
  }
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && end - at < 4 && (static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80)
      --at;
    const Char c = char_at(bytes, at);
    if (at + static_cast<size_t>(c.size) != end) break;
    if (!taken(c, bytes.substr(at, end - at), set)) break;
    end = at;
  }
  return text.slice(begin, end);
}

MarkedText replace(Evaluator& evaluator, const MarkedText& text, const MarkedText& from,
                   const MarkedText& to, int64_t most) {
  const std::string& bytes = text.bytes();
  MarkedText out;
  size_t at = 0;
  const auto put = [&](const MarkedText& piece, size_t begin, size_t end) {
    evaluator.budget.step();
    evaluator.budget.grow(end - begin + 1);
    out.append(piece, begin, end);
  };
  for (int64_t done = 0; most < 0 || done < most; ++done) {
    // An empty text is found before every character and at the end.
    const size_t found = from.empty() ? at : bytes.find(from.bytes(), at);
    if (found == std::string::npos || found > bytes.size()) break;
    put(text, at, found);
    put(to, 0, to.size());
    at = found + from.size();
    if (!from.empty()) continue;
    if (at >= bytes.size()) return out;
    const auto size = static_cast<size_t>(char_at(bytes, at).size);
    put(text, at, at + size);
    at += size;
  }
  put(text, at, bytes.size());
  return out;
}

MarkedText change_case(Evaluator& evaluator, const MarkedText& text, Case to) {
  const std::string_view bytes = text.bytes();
  evaluator.budget.step(bytes.size() / 4);
  evaluator.budget.grow(3 * bytes.size());
  MarkedText out;
  size_t at = 0;
  bool inside = false; // inside a word; for capitalize: after the first character
  for (const MarkedText::Run& run : text.runs()) {
    std::string changed;
    while (at < run.end) {
      const Char c = char_at(bytes, at);
      const bool upper =
          to == Case::upper || ((to == Case::title || to == Case::capitalize) && !inside);
      changed += cased(bytes.substr(at, static_cast<size_t>(c.size)), c, upper, to == Case::upper);
      inside = to == Case::capitalize || is_letter(c);
      at += static_cast<size_t>(c.size);
    }
    out.append(changed, run.mark);
  }
  return out;
}

MarkedText join(Evaluator& evaluator, const Items& items, const MarkedText& separator) {
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    const MarkedText piece = evaluator.text_of(items[i]);
    evaluator.budget.step();
    evaluator.budget.grow(piece.footprint() + separator.footprint());
    if (i > 0) out.append(separator);
    out.append(piece);
  }
  return out;
}

namespace {

// Appends one character of a text in quotes.
void append_quoted(std::string_view bytes, size_t at, const Char& c, char quote, Mark mark,
                   MarkedText& out) {
  const std::string_view raw = bytes.substr(at, static_cast<size_t>(c.size));
  const char first = raw[0];
  if (!c.valid)
    return out.append(fmt::format("\\x{:02x}", static_cast<unsigned char>(first)), mark);
  if (first == quote || first == '\\') {
    out.append("\\", mark);
    return out.append(raw, mark);
  }
  if (first == '\n') return out.append("\\n", mark);
  if (first == '\r') return out.append("\\r", mark);
  if (first == '\t') return out.append("\\t", mark);
  if (c.code == ' ' || (!is_other(c.code) && !is_whitespace(c.code))) return out.append(raw, mark);
  // Python escapes characters that it does not print: controls, formats, private characters and
  // blanks other than the space.
  const auto code = static_cast<uint32_t>(c.code);
  out.append(code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code),
             mark);
}

void append_text_repr(Budget& budget, const MarkedText& text, MarkedText& out) {
  budget.grow(text.size() + 2);
  const std::string& bytes = text.bytes();
  const bool doubled =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
  const char quote = doubled ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  size_t at = 0;
  for (const MarkedText::Run& run : text.runs()) {
    while (at < run.end) {
      const Char c = char_at(bytes, at);
      append_quoted(bytes, at, c, quote, run.mark, out);
      at += static_cast<size_t>(c.size);
    }
  }
  out.append(std::string_view(&quote, 1));
}

void append_items(Budget& budget, const Items& items, MarkedText& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(budget, items[i], out);
  }
}

void append_entries(Budget& budget, const Entries& entries, MarkedText& out) {
  out.append("{");
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(budget, entries[i].first, out);
    out.append(": ");
    append_repr(budget, entries[i].second, out);
  }
  out.append("}");
}

} // namespace

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Python prints the shortest digits that read back as the same number, with an exponent below -4
  // and from 16 on.
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string scientific(buffer, end.ptr);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

void append_repr(Budget& budget, const Value& value, MarkedText& out) {
  const Budget::Level level(budget);
  budget.step();
  budget.grow(16);
  switch (value.type()) {
  case Type::undefined: return out.append("Undefined");
  case Type::none: return out.append("None");
  case Type::boolean: return out.append(value.integer() != 0 ? "True" : "False");
  case Type::integer: return out.append(std::to_string(value.integer()));
  case Type::real: return out.append(number_text(value.real()));
  case Type::text: return append_text_repr(budget, value.text(), out);
  case Type::list:
    out.append("[");
    append_items(budget, value.items(), out);
    return out.append("]");
  case Type::tuple:
    out.append("(");
    append_items(budget, value.items(), out);
    return out.append(value.items().size() == 1 ? ",)" : ")");
  case Type::map: return append_entries(budget, value.entries(), out);
  case Type::space:
    out.append("<Namespace ");
    append_entries(budget, value.entries(), out);
    return out.append(">");
  case Type::function: return out.append(value.function()->describe());
  }
}

MarkedText to_text(Budget& budget, const Value& value) {
  if (value.is_text()) return value.text();
  MarkedText out;
  if (!value.is_undefined()) append_repr(budget, value, out);
  return out;
}

} // namespace dllm::text::jinja

// Values as Python prints them.

#include "text/jinja/budget.h"
#include "text/jinja/template.h"
#include "text/unicode.h"

#include <charconv>
#include <cmath>

namespace dllm::text::jinja {

namespace {

// One character of a text in quotes.
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
  if (c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA1)) {
    return out.append(fmt::format("\\x{:02x}", static_cast<uint32_t>(c.code)), mark);
  }
  out.append(raw, mark);
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
  // The shortest digits that read back the same; Python writes exponents below -4 and from 16 on.
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

// This file implements "%02d" % 5 and "{:>8}".format(x), as far as templates use them.

#include "text/jinja/evaluator.h"
#include "text/jinja/template.h"

namespace dllm::text::jinja {

namespace {

struct Spec {
  char fill = ' ';
  char align = '\0'; // < > ^
  bool plus = false;
  int width = 0;
  int precision = -1;
  char type = '\0'; // s r d f e g x
};

constexpr int kWidest = 10'000;

// Reads the digits at `at`; fails for a number above kWidest.
int read_number(std::string_view text, size_t& at) {
  int value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > kWidest) fail(Code::invalid_argument, "a format is wider than {}", kWidest);
  }
  return value;
}

std::string real_text(double value, const Spec& spec) {
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  if (spec.type == 'e') return fmt::format("{:.{}e}", value, precision);
  if (spec.type == 'g') return fmt::format("{:.{}g}", value, precision);
  return fmt::format("{:.{}f}", value, precision);
}

MarkedText plain(Evaluator& e, const Value& value, const Spec& spec) {
  const bool real = spec.type == 'f' || spec.type == 'e' || spec.type == 'g' ||
                    (spec.type == '\0' && spec.precision >= 0 && value.is(Type::real));
  if ((spec.type == 'd' || spec.type == 'x' || real) && !value.is_number()) {
    fail(Code::invalid_argument, "a format wants a number, not a {}", value.type_name());
  }
  if (real) return MarkedText(real_text(value.real(), spec));
  if (spec.type == 'd' || spec.type == 'x') {
    const double number = value.real();
    if (!(number > -9.2e18 && number < 9.2e18))
      fail(Code::invalid_argument, "a number needs more than 64 bits");
    const int64_t whole = value.is_whole() ? value.integer() : static_cast<int64_t>(number);
    return MarkedText(spec.type == 'd' ? std::to_string(whole) : fmt::format("{:x}", whole));
  }
  MarkedText text;
  if (spec.type == 'r') {
    append_repr(e.budget, value, text);
  } else {
    text = e.text_of(value);
  }
  if (spec.precision < 0) return text;
  return Characters(e.budget, text).slice(0, static_cast<size_t>(spec.precision));
}

void put(Evaluator& e, const Value& value, Spec spec, MarkedText& out) {
  MarkedText text = plain(e, value, spec);
  const bool number = value.is_number() && spec.type != 's' && spec.type != 'r';
  if (number && spec.plus && !text.bytes().starts_with('-')) {
    MarkedText positive("+");
    positive.append(text);
    text = positive;
  }
  const auto size = static_cast<int64_t>(Characters(e.budget, text).count());
  const auto room = static_cast<size_t>(std::max<int64_t>(spec.width - size, 0));
  e.budget.grow(text.footprint() + room);
  if (spec.align == '\0') spec.align = number ? '>' : '<';
  const size_t before = spec.align == '>' ? room : spec.align == '^' ? room / 2 : 0;
  const bool has_sign = number && spec.fill == '0' && text.bytes().find_first_of("+-") == 0;
  if (has_sign) out.append(text, 0, 1);
  out.append(std::string(before, spec.fill));
  out.append(text, has_sign ? 1 : 0, text.size());
  out.append(std::string(room - before, spec.fill));
}

// Parses "-05.2f", the part of "%-05.2f" after the %.
Spec read_percent(std::string_view text, size_t& at) {
  Spec spec;
  spec.align = '>';
  for (; at < text.size() && std::string_view("-+0 #").find(text[at]) != std::string_view::npos;
       ++at) {
    if (text[at] == '-') spec.align = '<';
    if (text[at] == '+') spec.plus = true;
    if (text[at] == '0') spec.fill = '0';
  }
  if (spec.align == '<') spec.fill = ' ';
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') spec.precision = read_number(text, ++at);
  spec.type = at < text.size() ? text[at++] : '\0';
  if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
  if (std::string_view("srdfegx").find(spec.type) == std::string_view::npos || spec.type == '\0') {
    fail(Code::invalid_argument, "a format % ends with none of s r d f e g x");
  }
  if (spec.type == 's' || spec.type == 'r') spec.fill = ' ';
  return spec;
}

// Parses "*>8.2f", the part of ":*>8.2f" after the colon.
Spec read_braces(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [&](size_t i) {
    return i < text.size() && (text[i] == '<' || text[i] == '>' || text[i] == '^');
  };
  if (is_align(1)) spec.fill = text[at++];
  if (is_align(at)) spec.align = text[at++];
  if (at < text.size() && text[at] == '+') spec.plus = text[at++] == '+';
  if (at < text.size() && text[at] == '0') {
    spec.fill = '0';
    spec.align = '>';
    ++at;
  }
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') spec.precision = read_number(text, ++at);
  if (at < text.size()) spec.type = text[at++];
  const bool known = std::string_view("\0sdfegx", 7).find(spec.type) != std::string_view::npos;
  if (at != text.size() || !known) {
    fail(Code::unimplemented, "the format {{:{}}} is not known",
         replace_invalid(text.substr(0, 40)));
  }
  return spec;
}

} // namespace

MarkedText format_percent(Evaluator& e, const MarkedText& format, const Value& values) {
  const std::string& bytes = format.bytes();
  const Items one = {values};
  const Items& items = values.is(Type::tuple) ? values.items() : one;
  size_t next = 0;
  MarkedText out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t sign = std::min(bytes.find('%', at), bytes.size());
    out.append(format, at, sign);
    if (sign == bytes.size()) break;
    at = sign + 1;
    e.budget.step();
    if (at < bytes.size() && bytes[at] == '%') {
      out.append(format, at, at + 1);
      ++at;
      continue;
    }
    const Value* named = nullptr;
    if (at < bytes.size() && bytes[at] == '(') {
      const size_t end = bytes.find(')', at);
      if (end == std::string::npos || !values.is(Type::map)) {
        fail(Code::invalid_argument, "a format with names takes a dict");
      }
      named = values.find(std::string_view(bytes).substr(at + 1, end - at - 1));
      if (named == nullptr) fail(Code::invalid_argument, "the dict of a format lacks a name");
      at = end + 1;
    }
    const Spec spec = read_percent(bytes, at);
    if (named == nullptr && next >= items.size()) {
      fail(Code::invalid_argument, "a format takes more than {} values", items.size());
    }
    put(e, named != nullptr ? *named : items[next++], spec, out);
  }
  if (next < items.size() && !values.is(Type::map)) {
    fail(Code::invalid_argument, "a format takes {} values, not {}", next, items.size());
  }
  return out;
}

MarkedText format_braces(Evaluator& e, const MarkedText& format, Arguments& arguments) {
  const std::string& bytes = format.bytes();
  size_t next = 0;
  MarkedText out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t sign = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.append(format, at, sign);
    if (sign == bytes.size()) break;
    e.budget.step();
    if (sign + 1 < bytes.size() && bytes[sign + 1] == bytes[sign]) {
      out.append(format, sign, sign + 1);
      at = sign + 2;
      continue;
    }
    const size_t end = bytes.find('}', sign);
    if (bytes[sign] == '}' || end == std::string::npos) {
      fail(Code::invalid_argument, "a format holds a single {}", bytes[sign]);
    }
    const std::string field = bytes.substr(sign + 1, end - sign - 1);
    const size_t colon = std::min(field.find(':'), field.size());
    const std::string name = field.substr(0, colon);
    const bool number =
        name.size() < 6 && name.find_first_not_of("0123456789") == std::string::npos;
    const size_t index = name.empty() ? next++ : number ? std::stoul(name) : SIZE_MAX;
    const Value* value = arguments.take(index, name);
    if (value == nullptr) {
      fail(Code::invalid_argument, "the format lacks a value for {{{}}}",
           replace_invalid(std::string_view(field).substr(0, 40)));
    }
    put(e, *value,
        read_braces(colon < field.size() ? std::string_view(field).substr(colon + 1) : ""), out);
    at = end + 1;
  }
  return out;
}

} // namespace dllm::text::jinja

#include "text/jinja/parser.h"

#include "base/error.h"
#include "text/unicode.h"

#include <algorithm>
#include <cstdlib>

namespace dllm::text::jinja {

namespace {

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t open = next_open(at_);
      if (open == std::string_view::npos) {
        text(at_, source_.size());
        break;
      }
      tag(open);
    }
    add(TokenKind::end, "", source_.size());
    return std::move(tokens_);
  }

private:
  [[noreturn]] void error(size_t at, const std::string& what) {
    fail(Code::invalid_argument, "line {}: {}", line_of(at), what);
  }

  int line_of(size_t at) {
    // Offsets only grow, so lines are counted from the last offset.
    if (at < counted_) {
      counted_ = 0;
      line_ = 1;
    }
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    counted_ = at;
    return line_;
  }

  void add(TokenKind kind, std::string value, size_t begin) {
    tokens_.push_back({kind, std::move(value), line_of(begin), begin});
  }

  size_t next_open(size_t from) const {
    for (size_t at = source_.find('{', from);
         at != std::string_view::npos && at + 1 < source_.size(); at = source_.find('{', at + 1)) {
      const char next = source_[at + 1];
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  char peek(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

  void text(size_t begin, size_t end) {
    if (begin < end) add(TokenKind::text, std::string(source_.substr(begin, end - begin)), begin);
  }

  // Adds the text before a tag at `open`. Sign "-" removes all white space before the tag. A
  // statement that is first on its line loses the white space before it.
  void text_before(size_t open, char sign, bool is_statement) {
    size_t end = open;
    if (sign == '-') {
      while (end > at_ && is_blank(source_[end - 1])) --end;
    } else if (sign != '+' && is_statement) {
      size_t begin = end;
      while (begin > at_ && is_blank(source_[begin - 1]) && source_[begin - 1] != '\n') --begin;
      const bool first = begin > at_ ? source_[begin - 1] == '\n' : starts_line_;
      if (first) end = begin;
    }
    text(at_, end);
  }

  // Continues after a tag that ends at `end`. Sign "-" skips all white space, and a statement skips
  // one line end.
  void leave(size_t end, char sign, bool is_statement) {
    at_ = end;
    if (sign == '-') {
      while (at_ < source_.size() && is_blank(source_[at_])) ++at_;
    } else if (sign != '+' && is_statement && peek(at_) == '\n') {
      ++at_;
    }
    starts_line_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  static char sign_of(char c) { return c == '-' || c == '+' ? c : '\0'; }

  void tag(size_t open) {
    const char kind = source_[open + 1];
    const char sign = sign_of(peek(open + 2));
    text_before(open, kind == '{' && sign == '+' ? '\0' : sign, kind != '{');
    // The + of {{+ is the operator, not a sign.
    const size_t inside = open + 2 + (sign == '-' || (sign == '+' && kind != '{') ? 1 : 0);
    if (kind == '#') return comment(open, inside);
    if (kind == '%' && raw(open, inside)) return;
    add(kind == '{' ? TokenKind::open : TokenKind::open_tag, "", open);
    words(open, inside, kind == '{');
  }

  void comment(size_t open, size_t inside) {
    const size_t close = source_.find("#}", inside);
    if (close == std::string_view::npos) error(open, "a comment {# has no end #}");
    const char sign = close > inside ? sign_of(source_[close - 1]) : '\0';
    leave(close + 2, sign, true);
  }

  size_t skip_blanks(size_t at) const {
    while (at < source_.size() && is_blank(source_[at])) ++at;
    return at;
  }

  // Finds {% word -%} at `inside`; sets the offset after it and its sign.
  bool closes(size_t inside, std::string_view word, size_t& end, char& sign) const {
    size_t at = skip_blanks(inside);
    if (source_.substr(at, word.size()) != word) return false;
    at = skip_blanks(at + word.size());
    sign = sign_of(peek(at));
    if (sign != '\0') ++at;
    if (source_.substr(at, 2) != "%}") return false;
    end = at + 2;
    return true;
  }

  bool raw(size_t open, size_t inside) {
    size_t body = 0, end = 0;
    char sign = '\0';
    if (!closes(inside, "raw", body, sign)) return false;
    leave(body, sign, false);
    for (size_t close = source_.find("{%", at_); close != std::string_view::npos;
         close = source_.find("{%", close + 2)) {
      const char before = sign_of(peek(close + 2));
      if (!closes(close + 2 + (before != '\0' ? 1 : 0), "endraw", end, sign)) continue;
      text_before(close, before, true);
      leave(end, sign, true);
      return true;
    }
    error(open, "{% raw %} has no {% endraw %}");
  }

  void words(size_t open, size_t at, bool is_output) {
    const std::string_view close = is_output ? "}}" : "%}";
    int braces = 0;
    for (;;) {
      at = skip_blanks(at);
      if (at >= source_.size()) error(open, is_output ? "{{ has no }}" : "{% has no %}");
      const char sign = sign_of(source_[at]);
      const size_t end = at + (sign == '-' || (sign == '+' && !is_output) ? 1 : 0);
      if (braces == 0 && source_.substr(end, 2) == close) {
        add(is_output ? TokenKind::close : TokenKind::close_tag, "", end);
        return leave(end + 2, end > at ? sign : '\0', !is_output);
      }
      const char c = source_[at];
      if (c == '(' || c == '[' || c == '{') ++braces;
      if ((c == ')' || c == ']' || c == '}') && braces > 0) --braces;
      at = word(at);
    }
  }

  size_t word(size_t at) {
    const char c = source_[at];
    if (c == '\'' || c == '"') return string(at);
    if (is_digit(c)) return number(at);
    if (is_name_start(c)) {
      size_t end = at + 1;
      while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
      add(TokenKind::name, std::string(source_.substr(at, end - at)), at);
      return end;
    }
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (source_.substr(at, 2) != two) continue;
      add(TokenKind::sign, std::string(two), at);
      return at + 2;
    }
    if (std::string_view("+-*/%~()[]{}<>=.:|,;").find(c) == std::string_view::npos) {
      error(at, fmt::format("the character {} is not allowed here",
                            static_cast<unsigned char>(c) < 0x20 ? std::string("?")
                                                                 : std::string(1, c)));
    }
    add(TokenKind::sign, std::string(1, c), at);
    return at + 1;
  }

  size_t number(size_t at) {
    size_t end = at;
    std::string digits;
    const auto take_digits = [&] {
      while (is_digit(peek(end)) || (peek(end) == '_' && is_digit(peek(end + 1)))) {
        if (source_[end] != '_') digits += source_[end];
        ++end;
      }
    };
    take_digits();
    bool real = false;
    if (peek(end) == '.' && is_digit(peek(end + 1))) {
      real = true;
      digits += source_[end++];
      take_digits();
    }
    const size_t after = end + (peek(end + 1) == '-' || peek(end + 1) == '+' ? 2 : 1);
    if ((peek(end) == 'e' || peek(end) == 'E') && is_digit(peek(after))) {
      real = true;
      digits += source_.substr(end, after - end);
      end = after;
      take_digits();
    }
    add(real ? TokenKind::real : TokenKind::integer, std::move(digits), at);
    return end;
  }

  size_t string(size_t begin) {
    const char quote = source_[begin];
    std::string value;
    size_t at = begin + 1;
    while (at < source_.size() && source_[at] != quote) {
      if (source_[at] == '\\' && at + 1 < source_.size()) {
        at = escape(at + 1, value);
      } else {
        value += source_[at++];
      }
    }
    if (at >= source_.size()) error(begin, "a string has no end");
    add(TokenKind::string, std::move(value), begin);
    return at + 1;
  }

  // Adds the character after a backslash and returns the offset of the rest. Unknown escapes are
  // kept as written.
  size_t escape(size_t at, std::string& value) {
    const char c = source_[at];
    constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
      value += kTo[known];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    const int width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (width == 0) {
      if (c < '0' || c > '7') {
        value += '\\';
        value += c;
        return at + 1;
      }
      uint32_t code = 0;
      size_t end = at;
      for (; end < at + 3 && peek(end) >= '0' && peek(end) <= '7'; ++end) {
        code = code * 8 + static_cast<uint32_t>(source_[end] - '0');
      }
      append_utf8(value, code);
      return end;
    }
    const std::string digits(source_.substr(at + 1, static_cast<size_t>(width)));
    const bool whole = digits.size() == static_cast<size_t>(width) &&
                       digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    const auto code = whole ? static_cast<char32_t>(std::strtoul(digits.c_str(), nullptr, 16)) : 0;
    if (!whole || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      error(at, fmt::format("\\{}{} is not a character", c, replace_invalid(digits)));
    }
    append_utf8(value, code);
    return at + 1 + static_cast<size_t>(width);
  }

  std::string_view source_;
  size_t at_ = 0;           // the first byte that is not taken yet
  bool starts_line_ = true; // at_ is the start of a line
  std::vector<Token> tokens_;
  size_t counted_ = 0;
  int line_ = 1;
};

} // namespace

std::string clean_source(std::string_view source) {
  std::string clean;
  clean.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      clean += source[i];
    } else if (i + 1 >= source.size() || source[i + 1] != '\n') {
      clean += '\n';
    }
  }
  if (!clean.empty() && clean.back() == '\n') clean.pop_back();
  return clean;
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

} // namespace dllm::text::jinja

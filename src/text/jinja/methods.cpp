// This file has the methods of texts, lists and dicts in Python that do not change their object.

#include "text/jinja/evaluator.h"
#include "text/jinja/template.h"
#include "text/unicode.h"

#include <algorithm>
#include <span>

namespace dllm::text::jinja {

namespace {

struct Method {
  const char* name;
  Value (*run)(Evaluator&, const Value& self, Arguments&);
};

class Bound final : public Function {
public:
  Bound(const Method& method, Value self) : method_(method), self_(std::move(self)) {}
  Value call(Evaluator& evaluator, Arguments& arguments) override {
    Value made = method_.run(evaluator, self_, arguments);
    arguments.done(method_.name);
    return made;
  }
  std::string describe() const override { return fmt::format("<method {}>", method_.name); }

private:
  const Method& method_;
  Value self_;
};

const Value& need(Arguments& arguments, size_t index, std::string_view name) {
  const Value* given = arguments.take(index, name);
  if (given == nullptr) fail(Code::invalid_argument, "the argument {} is missing", name);
  return *given;
}

// Returns a limit, or -1 for an absent limit.
int64_t limit(Arguments& arguments, size_t index, std::string_view name) {
  const Value* given = arguments.take(index, name);
  return given == nullptr || given->is_none() ? -1 : need_integer(*given, name);
}

template <bool kLeft, bool kRight>
Value strip_ends(Evaluator&, const Value& self, Arguments& arguments) {
  return Value(strip(self.text(), arguments.take(0, "chars"), kLeft, kRight));
}

template <Case kTo> Value to_case(Evaluator& e, const Value& self, Arguments&) {
  return Value(change_case(e, self.text(), kTo));
}

using Spans = std::vector<std::pair<size_t, size_t>>;

bool is_space(const Char& c) {
  return c.valid && is_whitespace(c.code);
}

// Splits a text at white space; after `most` cuts the rest stays whole.
Spans split_spaces(const std::string& bytes, int64_t most) {
  Spans spans;
  size_t at = 0;
  const auto skip = [&](bool space) {
    while (at < bytes.size()) {
      const Char c = char_at(bytes, at);
      if (is_space(c) != space) break;
      at += static_cast<size_t>(c.size);
    }
  };
  for (skip(true); at < bytes.size(); skip(true)) {
    const size_t begin = at;
    if (most >= 0 && static_cast<int64_t>(spans.size()) == most) {
      spans.emplace_back(begin, bytes.size());
      break;
    }
    skip(false);
    spans.emplace_back(begin, at);
  }
  return spans;
}

Spans split_at(const std::string& bytes, const std::string& separator, int64_t most) {
  Spans spans;
  size_t at = 0;
  for (;;) {
    const bool more = most < 0 || static_cast<int64_t>(spans.size()) < most;
    const size_t found = more ? bytes.find(separator, at) : std::string::npos;
    if (found == std::string::npos) break;
    spans.emplace_back(at, found);
    at = found + separator.size();
  }
  spans.emplace_back(at, bytes.size());
  return spans;
}

// Splits from the end.
Spans split_back(const std::string& bytes, const std::string& separator, int64_t most) {
  Spans spans;
  size_t end = bytes.size();
  for (;;) {
    const bool more = most < 0 || static_cast<int64_t>(spans.size()) < most;
    const bool room = more && end >= separator.size();
    const size_t found = room ? bytes.rfind(separator, end - separator.size()) : std::string::npos;
    if (found == std::string::npos) break;
    spans.emplace_back(found + separator.size(), end);
    end = found;
  }
  spans.emplace_back(0, end);
  std::reverse(spans.begin(), spans.end());
  return spans;
}

Value pieces(Evaluator& e, const MarkedText& text, const Spans& spans) {
  e.budget.grow(spans.size() * (sizeof(Value) + sizeof(MarkedText) + 64) + text.footprint());
  Items items;
  for (const auto& [begin, end] : spans) items.emplace_back(text.slice(begin, end));
  return e.list(std::move(items));
}

Value split(Evaluator& e, const Value& self, Arguments& arguments) {
  const Value* separator = arguments.take(0, "sep");
  const int64_t most = limit(arguments, 1, "maxsplit");
  if (separator == nullptr || separator->is_none()) {
    return pieces(e, self.text(), split_spaces(self.bytes(), most));
  }
  const std::string& sign = need_text(*separator, "the separator").bytes();
  if (sign.empty()) fail(Code::invalid_argument, "the separator of split is empty");
  return pieces(e, self.text(), split_at(self.bytes(), sign, most));
}

Value split_from_end(Evaluator& e, const Value& self, Arguments& arguments) {
  const std::string& sign = need_text(need(arguments, 0, "sep"), "the separator").bytes();
  const int64_t most = limit(arguments, 1, "maxsplit");
  if (sign.empty()) fail(Code::invalid_argument, "the separator of rsplit is empty");
  return pieces(e, self.text(), split_back(self.bytes(), sign, most));
}

Value split_lines(Evaluator& e, const Value& self, Arguments& arguments) {
  const bool keep = flag(arguments, 0, "keepends", false);
  const std::string& bytes = self.bytes();
  Spans spans;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find_first_of("\r\n", at), bytes.size());
    size_t next = std::min(end + 1, bytes.size());
    if (bytes.compare(end, 2, "\r\n") == 0) ++next;
    spans.emplace_back(at, keep ? next : end);
    at = next;
  }
  return pieces(e, self.text(), spans);
}

Value partition(Evaluator&, const Value& self, Arguments& arguments) {
  const MarkedText& sign = need_text(need(arguments, 0, "sep"), "the separator");
  if (sign.empty()) fail(Code::invalid_argument, "the separator of partition is empty");
  const MarkedText& text = self.text();
  const size_t found = text.bytes().find(sign.bytes());
  if (found == std::string::npos) {
    return Value::tuple({self, Value(std::string()), Value(std::string())});
  }
  const size_t behind = found + sign.size();
  return Value::tuple({Value(text.slice(0, found)), Value(text.slice(found, behind)),
                       Value(text.slice(behind, text.size()))});
}

Value replace_all(Evaluator& e, const Value& self, Arguments& arguments) {
  const MarkedText& from = need_text(need(arguments, 0, "old"), "the text to replace");
  const MarkedText& to = need_text(need(arguments, 1, "new"), "the replacement");
  return Value(replace(e, self.text(), from, to, limit(arguments, 2, "count")));
}

// startswith and endswith take one text or a tuple of them.
template <bool kStart> Value has_end(Evaluator&, const Value& self, Arguments& arguments) {
  const Value& wanted = need(arguments, 0, "prefix");
  const Items one = {wanted};
  for (const Value& item : wanted.is(Type::tuple) ? wanted.items() : one) {
    const std::string& text = need_text(item, "the start or end of a string").bytes();
    if (kStart ? self.bytes().starts_with(text) : self.bytes().ends_with(text)) return Value(true);
  }
  return Value(false);
}

template <bool kStart> Value remove_end(Evaluator&, const Value& self, Arguments& arguments) {
  const std::string& text = need_text(need(arguments, 0, "prefix"), "the text to remove").bytes();
  const MarkedText& own = self.text();
  if (kStart && own.bytes().starts_with(text)) return Value(own.slice(text.size(), own.size()));
  if (!kStart && own.bytes().ends_with(text)) return Value(own.slice(0, own.size() - text.size()));
  return self;
}

// Returns the index of the first character of `sub`, or -1 when the text lacks it.
template <bool kLast> Value find(Evaluator& e, const Value& self, Arguments& arguments) {
  const std::string& text = need_text(need(arguments, 0, "sub"), "the text to find").bytes();
  const size_t at = kLast ? self.bytes().rfind(text) : self.bytes().find(text);
  if (at == std::string::npos) return Value(int64_t{-1});
  const MarkedText before = self.text().slice(0, at);
  return Value(static_cast<int64_t>(Characters(e.budget, before).count()));
}

Value count(Evaluator& e, const Value& self, Arguments& arguments) {
  const std::string& text = need_text(need(arguments, 0, "sub"), "the text to count").bytes();
  if (text.empty())
    return Value(static_cast<int64_t>(Characters(e.budget, self.text()).count()) + 1);
  return Value(static_cast<int64_t>(split_at(self.bytes(), text, -1).size()) - 1);
}

Value join_all(Evaluator& e, const Value& self, Arguments& arguments) {
  const Items items = e.items_of(need(arguments, 0, "iterable"));
  for (const Value& item : items) need_text(item, "an item to join");
  return Value(join(e, items, self.text()));
}

Value format(Evaluator& e, const Value& self, Arguments& arguments) {
  return Value(format_braces(e, self.text(), arguments));
}

// Returns true when the text has a character and all characters are of the class.
template <bool (*kIs)(char32_t)> Value all_are(Evaluator&, const Value& self, Arguments&) {
  const std::string& bytes = self.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    if (!c.valid || !kIs(c.code)) return Value(false);
    at += static_cast<size_t>(c.size);
  }
  return Value(!bytes.empty());
}

// Returns true for digits, also small and circled digits ("²" and "⑴"), but not for "½".
bool is_digit_sign(char32_t code) {
  if (!is_numeric(code)) return false;
  if (is_decimal(code)) return true;
  std::string plain = normalize(to_utf8(code), Form::nfkd);
  std::erase_if(plain, [](char c) { return c == '(' || c == ')' || c == '.' || c == ','; });
  return plain.size() == 1 && plain[0] >= '0' && plain[0] <= '9';
}
bool is_letter_sign(char32_t code) {
  return is_word(code) && !is_numeric(code) && !is_mark(code) && code != '_';
}
bool is_letter_or_digit(char32_t code) {
  return is_numeric(code) || is_letter_sign(code);
}

constexpr Method kTextMethods[] = {
    {"strip", strip_ends<true, true>},
    {"lstrip", strip_ends<true, false>},
    {"rstrip", strip_ends<false, true>},
    {"upper", to_case<Case::upper>},
    {"lower", to_case<Case::lower>},
    {"title", to_case<Case::title>},
    {"capitalize", to_case<Case::capitalize>},
    {"split", split},
    {"rsplit", split_from_end},
    {"splitlines", split_lines},
    {"partition", partition},
    {"replace", replace_all},
    {"startswith", has_end<true>},
    {"endswith", has_end<false>},
    {"removeprefix", remove_end<true>},
    {"removesuffix", remove_end<false>},
    {"find", find<false>},
    {"rfind", find<true>},
    {"count", count},
    {"join", join_all},
    {"format", format},
    {"isdigit", all_are<is_digit_sign>},
    {"isalpha", all_are<is_letter_sign>},
    {"isalnum", all_are<is_letter_or_digit>},
    {"isspace", all_are<is_whitespace>},
};

Value index_of(Evaluator& e, const Value& self, Arguments& arguments) {
  const Value& wanted = need(arguments, 0, "value");
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (equal(e.budget, self.items()[i], wanted)) return Value(static_cast<int64_t>(i));
  }
  fail(Code::invalid_argument, "the list does not hold the value that index() looks for");
}

Value count_of(Evaluator& e, const Value& self, Arguments& arguments) {
  const Value& wanted = need(arguments, 0, "value");
  return Value(static_cast<int64_t>(
      std::count_if(self.items().begin(), self.items().end(),
                    [&](const Value& item) { return equal(e.budget, item, wanted); })));
}

constexpr Method kListMethods[] = {{"index", index_of}, {"count", count_of}};

Value items(Evaluator& e, const Value& self, Arguments&) {
  return e.filter("items", self, {});
}
Value keys(Evaluator& e, const Value& self, Arguments&) {
  return Value::list(e.items_of(self));
}
Value values(Evaluator& e, const Value& self, Arguments&) {
  Items found;
  for (const auto& entry : self.entries()) found.push_back(entry.second);
  return e.list(std::move(found));
}
Value get(Evaluator& e, const Value& self, Arguments& arguments) {
  const Value& key = need(arguments, 0, "key");
  const Value* fallback = arguments.take(1, "default");
  e.budget.step(self.entries().size() / 16);
  const Value* found = self.find(key);
  return found != nullptr ? *found : fallback != nullptr ? *fallback : Value::none();
}
Value copy(Evaluator&, const Value& self, Arguments&) {
  return self;
}

constexpr Method kMapMethods[] = {
    {"items", items}, {"keys", keys}, {"values", values}, {"get", get}, {"copy", copy}};

std::span<const Method> methods_of(const Value& of) {
  if (of.is_text()) return kTextMethods;
  if (of.is_sequence()) return kListMethods;
  if (of.is(Type::map)) return kMapMethods;
  return {};
}

} // namespace

Value find_method(const Value& of, const std::string& name) {
  for (const Method& method : methods_of(of)) {
    if (name == method.name) {
      return Value(std::shared_ptr<Function>(std::make_shared<Bound>(method, of)));
    }
  }
  return {};
}

} // namespace dllm::text::jinja

// This file has the filters of texts.

#include "text/jinja/evaluator.h"
#include "text/jinja/template.h"

namespace dllm::text::jinja {

namespace {

// Returns a length that is limited to 2^40, so that arithmetic with it cannot overflow.
int64_t need_length(const Value& value, std::string_view what) {
  return std::clamp<int64_t>(need_integer(value, what), -(int64_t{1} << 40), int64_t{1} << 40);
}

Value upper(Evaluator& e, const Value& input, Arguments&) {
  return Value(change_case(e, e.text_of(input), Case::upper));
}
Value lower(Evaluator& e, const Value& input, Arguments&) {
  return Value(change_case(e, e.text_of(input), Case::lower));
}
Value capitalize(Evaluator& e, const Value& input, Arguments&) {
  return Value(change_case(e, e.text_of(input), Case::capitalize));
}

// Unlike the method, an apostrophe does not begin a word here.
Value title(Evaluator& e, const Value& input, Arguments&) {
  const MarkedText text = change_case(e, e.text_of(input), Case::lower);
  const std::string& bytes = text.bytes();
  MarkedText out;
  for (size_t at = 0; at < bytes.size();) {
    const auto begins = [&](size_t i) {
      return i == 0 || std::string_view("-({[<").find(bytes[i - 1]) != std::string_view::npos ||
             (bytes[i - 1] == ' ' || (bytes[i - 1] >= '\t' && bytes[i - 1] <= '\r'));
    };
    const auto size = static_cast<size_t>(char_at(bytes, at).size);
    const MarkedText piece = text.slice(at, at + size);
    out.append(begins(at) ? change_case(e, piece, Case::upper) : piece);
    at += size;
  }
  return Value(std::move(out));
}

Value trim(Evaluator& e, const Value& input, Arguments& arguments) {
  return Value(strip(e.text_of(input), arguments.take(0, "chars"), true, true));
}

Value replace_in(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* from = arguments.take(0, "old");
  const Value* to = arguments.take(1, "new");
  const Value* count = arguments.take(2, "count");
  if (from == nullptr || to == nullptr) fail(Code::invalid_argument, "replace takes two texts");
  const bool all = count == nullptr || count->is_none();
  return Value(replace(e, e.text_of(input), e.text_of(*from), e.text_of(*to),
                       all ? -1 : need_integer(*count, "count")));
}

Value to_string(Evaluator& e, const Value& input, Arguments&) {
  return input.is_text() ? input : Value(e.text_of(input));
}

Value escape(Evaluator& e, const Value& input, Arguments&) {
  MarkedText text = e.text_of(input);
  const std::pair<const char*, const char*> rows[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  for (const auto& [from, to] : rows) {
    text = replace(e, text, MarkedText(from), MarkedText(to), -1);
  }
  return Value(std::move(text));
}

Value json(Evaluator& e, const Value& input, Arguments& arguments) {
  return Value(to_json(e.budget, input, arguments));
}

Value indent(Evaluator& e, const Value& input, Arguments& arguments) {
  if (input.is_undefined())
    fail(Code::invalid_argument, "{} is undefined, expected a text", input.undefined_name());
  const Value* width = arguments.take(0, "width");
  const bool first = flag(arguments, 1, "first", false);
  const bool blank = flag(arguments, 2, "blank", false);
  MarkedText margin;
  if (width != nullptr && width->is_text()) {
    margin = width->text();
  } else {
    const int64_t count = width != nullptr ? need_integer(*width, "width") : 4;
    if (count > 0) e.budget.grow(static_cast<size_t>(count));
    margin = MarkedText(std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' '));
  }
  const MarkedText text = e.text_of(input);
  const std::string& bytes = text.bytes();
  MarkedText out;
  for (size_t at = 0, line = 0; at <= bytes.size(); ++line) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const bool wanted = line == 0 ? first : blank || end > at;
    e.budget.step();
    e.budget.grow(margin.footprint() + end - at + 1);
    if (wanted) out.append(margin);
    out.append(text, at, end + 1);
    at = end + 1;
  }
  return Value(std::move(out));
}

Value center(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* given = arguments.take(0, "width");
  const int64_t width = given != nullptr ? need_length(*given, "width") : 80;
  const MarkedText text = e.text_of(input);
  const auto size = static_cast<int64_t>(Characters(e.budget, text).count());
  const int64_t room = std::max<int64_t>(width - size, 0);
  e.budget.grow(static_cast<size_t>(room));
  // Python puts the odd space to the left of texts that fill an odd width.
  const int64_t left = room / 2 + (room & width & 1);
  MarkedText out(std::string(static_cast<size_t>(left), ' '));
  out.append(text);
  out.append(std::string(static_cast<size_t>(room - left), ' '));
  return Value(std::move(out));
}

Value truncate(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* given = arguments.take(0, "length");
  const bool kill = flag(arguments, 1, "killwords", false);
  const Value* ending = arguments.take(2, "end");
  const Value* leeway = arguments.take(3, "leeway");
  const int64_t length = given != nullptr ? need_length(*given, "length") : 255;
  const MarkedText end = ending != nullptr ? need_text(*ending, "end") : MarkedText("...");
  const int64_t slack =
      leeway != nullptr && !leeway->is_none() ? need_length(*leeway, "leeway") : 5;
  const MarkedText text = e.text_of(input);
  const Characters characters(e.budget, text);
  const auto rest = length - static_cast<int64_t>(Characters(e.budget, end).count());
  if (rest < 0)
    fail(Code::invalid_argument, "truncate: length {} is below the length of the end", length);
  if (static_cast<int64_t>(characters.count()) - slack <= length) return Value(text);
  MarkedText out = characters.slice(0, static_cast<size_t>(rest));
  const size_t space = out.bytes().rfind(' ');
  if (!kill && space != std::string::npos) out = out.slice(0, space);
  out.append(end);
  return Value(std::move(out));
}

// \w of Python: letters, numbers and "_", neither marks nor joiners.
bool counts_as_word(char32_t code) {
  if (code == U'_' || is_numeric(code)) return true;
  const bool joiner = code == 0x200C || code == 0x200D;
  return is_word(code) && !is_mark(code) && !is_punctuation(code) && !joiner;
}

Value word_count(Evaluator& e, const Value& input, Arguments&) {
  const MarkedText text = e.text_of(input);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text.bytes(), at);
    const bool in_word = c.valid && counts_as_word(c.code);
    words += in_word && !inside ? 1 : 0;
    inside = in_word;
    at += static_cast<size_t>(c.size);
  }
  return Value(words);
}

Value format(Evaluator& e, const Value& input, Arguments& arguments) {
  Items values;
  for (size_t i = 0; i < arguments.positional.size(); ++i) values.push_back(*arguments.take(i, ""));
  Entries named;
  for (const auto& [name, value] : arguments.named) {
    named.emplace_back(Value(name), *arguments.take(SIZE_MAX, name));
  }
  const Value given =
      named.empty() ? Value::tuple(std::move(values)) : Value::map(std::move(named));
  return Value(format_percent(e, e.text_of(input), given));
}

constexpr Filter kFilters[] = {
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"trim", trim},
    {"replace", replace_in},
    {"string", to_string},
    {"safe", to_string},
    {"escape", escape},
    {"e", escape},
    {"forceescape", escape},
    {"tojson", json},
    {"indent", indent},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", word_count},
    {"format", format},
};

} // namespace

std::span<const Filter> text_filters() {
  return kFilters;
}

} // namespace dllm::text::jinja

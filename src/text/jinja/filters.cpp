// This file finds filters by name in the tables of all files, and has the filters that choose items
// and the filters of numbers.
#include "base/error.h"
#include "base/named_table.h"
#include "base/number.h"
#include "text/jinja/evaluator.h"
#include "text/unicode.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace dllm::text::jinja {

namespace {

const Filter& find_filter(const std::string& name) {
  const auto tables = {text_filters(), list_filters(), choice_filters(), number_filters()};
  for (const auto& table : tables) {
    if (const Filter* found = find_named(table, name, &Filter::name)) return *found;
  }
  std::vector<std::string> names;
  for (const auto& table : tables)
    std::ranges::move(names_of(table, &Filter::name), std::back_inserter(names));
  fail_unnamed({"filter", "", "", Code::unimplemented}, name, names);
}

} // namespace

Value Evaluator::filter(const std::string& name, const Value& input, Arguments arguments) {
  const Filter& found = find_filter(name);
  const Budget::Level level(budget);
  Value made = found.run(*this, input, arguments);
  arguments.done("filter " + name);
  return made;
}

bool flag(Arguments& arguments, size_t index, std::string_view name, bool fallback) {
  const Value* given = arguments.take(index, name);
  return given != nullptr ? given->truth() : fallback;
}

// Filters that choose or change items, and filters that test whether a value exists.

namespace {

Value fallback(Evaluator&, const Value& input, Arguments& arguments) {
  const Value* value = arguments.take(0, "default_value");
  const bool also_false = flag(arguments, 1, "boolean", false);
  const bool missing = input.is_undefined() || (also_false && !input.truth());
  if (!missing) return input;
  return value != nullptr ? *value : Value(std::string());
}

Value attribute(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* name = arguments.take(0, "name");
  if (name == nullptr) fail(Code::invalid_argument, "attr needs a name");
  const std::string& bytes = need_text(*name, "an attribute's name").bytes();
  return input.is(Type::map) ? Value::undefined(bytes) : e.attribute(input, bytes); // no member
}

// Takes the arguments after the first `count`, which belong to the named test or filter.
Arguments rest_of(Arguments& arguments, size_t count) {
  Arguments rest;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(*arguments.take(i, ""));
  }
  for (const auto& [name, value] : arguments.named) {
    rest.named.emplace_back(name, *arguments.take(SIZE_MAX, name));
  }
  return rest;
}

// Implements select and reject, which test each item, or with an attribute the item's attribute.
// Without a test they use the truth of the value.
template <bool kWanted, bool kByAttribute>
Value choose(Evaluator& e, const Value& input, Arguments& arguments) {
  const Value* path = kByAttribute ? arguments.take(0, "attribute") : nullptr;
  if (kByAttribute && path == nullptr) fail(Code::invalid_argument, "an attribute is missing");
  const size_t own = kByAttribute ? 1 : 0;
  const Value* test = arguments.take(own, "test");
  const Arguments rest = test != nullptr ? rest_of(arguments, own + 1) : Arguments{};
  Items chosen;
  for (const Value& item : e.items_of(input)) {
    const Value value = kByAttribute ? e.path(item, *path) : item;
    const bool holds = test != nullptr
                           ? e.test(need_text(*test, "a test's name").bytes(), value, rest)
                           : value.truth();
    if (holds == kWanted) chosen.push_back(item);
  }
  return Value::list(std::move(chosen));
}

Value map(Evaluator& e, const Value& input, Arguments& arguments) {
  Items items = e.items_of(input);
  if (const Value* path = arguments.take(SIZE_MAX, "attribute")) {
    const Value* missing = arguments.take(SIZE_MAX, "default");
    for (Value& item : items) {
      item = e.path(item, *path);
      if (item.is_undefined() && missing != nullptr) item = *missing;
    }
    return Value::list(std::move(items));
  }
  const Value* name = arguments.take(0, "filter");
  if (name == nullptr) fail(Code::invalid_argument, "map needs a filter or an attribute");
  const std::string& filter = need_text(*name, "a filter's name").bytes();
  const Arguments rest = rest_of(arguments, 1);
  for (Value& item : items) {
    item = e.filter(filter, item, rest);
    e.budget.grow(item.is_fresh() ? item.footprint() : 0);
  }
  return Value::list(std::move(items));
}

constexpr Filter kChoiceFilters[] = {
    {"default", fallback},
    {"d", fallback},
    {"attr", attribute},
    {"select", choose<true, false>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<false, true>},
    {"map", map},
};

} // namespace

std::span<const Filter> choice_filters() {
  return kChoiceFilters;
}

// Filters of numbers.

namespace {

// Returns the text of a number without white space around it and single "_" inside, or "" for a
// misplaced "_".
std::string plain_number(const MarkedText& text) {
  const std::string bytes = strip(text, nullptr, true, true).bytes();
  const auto is_digit = [&](size_t at) {
    return at < bytes.size() && std::isalnum(static_cast<unsigned char>(bytes[at])) != 0;
  };
  std::string plain;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '_')
      plain.push_back(bytes[at]);
    else if (at == 0 || !is_digit(at - 1) || !is_digit(at + 1))
      return "";
  }
  return plain;
}

// Parses a number as Python's float() does; returns nothing when the text is not a number.
std::optional<double> parse_real(const MarkedText& text) {
  const std::string bytes = plain_number(text);
  if (bytes.empty() || bytes.size() > 100) return std::nullopt;
  const bool is_signed = bytes[0] == '+' || bytes[0] == '-';
  const std::string name = lowercase(std::string_view(bytes).substr(is_signed ? 1 : 0));
  const double sign = bytes[0] == '-' ? -1 : 1;
  if (name == "inf" || name == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (bytes.find_first_not_of("0123456789+-.eE") != std::string::npos) return std::nullopt;
  return parse_number(bytes);
}

std::optional<int64_t> truncated(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

const Value& need_defined(const Value& value) {
  if (!value.is_undefined()) return value;
  fail(Code::invalid_argument, "{} is undefined, expected a number", value.undefined_name());
}

// Returns nothing for a value at which Python raises an error that int() catches.
std::optional<Value> whole_part(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  const auto whole = truncated(value);
  if (!whole) fail(Code::unimplemented, "an integer needs more than 64 bits");
  return Value(*whole);
}

// Parses a number as Python's int() does in a base; the text may begin with the base (0x1F).
std::optional<Value> parse_whole(std::string bytes, int64_t base) {
  const bool negative = bytes.starts_with("-");
  if (negative || bytes.starts_with("+")) bytes.erase(0, 1);
  const std::string begin = lowercase(bytes.substr(0, 2));
  const bool is_named =
      (base == 16 && begin == "0x") || (base == 8 && begin == "0o") || (base == 2 && begin == "0b");
  if (is_named) bytes.erase(0, 2);
  if (bytes.empty() || bytes[0] == '-') return std::nullopt;
  if (negative) bytes.insert(0, "-");
  int64_t value = 0;
  const char* end = bytes.data() + bytes.size();
  const auto result = std::from_chars(bytes.data(), end, value, static_cast<int>(base));
  if (result.ptr != end || result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec != std::errc()) fail(Code::unimplemented, "an integer needs more than 64 bits");
  return Value(value);
}

Value to_integer(Evaluator&, const Value& input, Arguments& arguments) {
  const Value* given = arguments.take(0, "default");
  const Value* base_given = arguments.take(1, "base");
  const Value missing = given != nullptr ? *given : Value(int64_t{0});
  const int64_t base = base_given != nullptr ? need_integer(*base_given, "base") : 10;
  if (base < 2 || base > 36) fail(Code::invalid_argument, "base {} is not from 2 to 36", base);
  if (need_defined(input).is_whole()) return Value(input.integer());
  if (!input.is_text())
    return input.is(Type::real) ? whole_part(input.real()).value_or(missing) : missing;
  if (const auto value = parse_whole(plain_number(input.text()), base)) return *value;
  const auto real = parse_real(input.text());
  return real ? whole_part(*real).value_or(missing) : missing;
}

Value to_real(Evaluator&, const Value& input, Arguments& arguments) {
  const Value* missing = arguments.take(0, "default");
  if (need_defined(input).is_number()) return Value(input.real());
  const auto value = input.is_text() ? parse_real(input.text()) : std::nullopt;
  if (value) return Value(*value);
  return missing != nullptr ? *missing : Value(0.0);
}

const Value& need_number(const Value& value, const char* who) {
  if (value.is_number()) return value;
  fail(Code::invalid_argument, "{} takes a number, not a {}", who, value.type_name());
}

Value absolute(Evaluator&, const Value& input, Arguments&) {
  const Value& number = need_number(input, "abs");
  if (number.is(Type::real)) return Value(std::abs(number.real()));
  return number.integer() < 0 ? apply_unary("-", number) : Value(number.integer());
}

Value round_number(Evaluator&, const Value& input, Arguments& arguments) {
  const Value* places_given = arguments.take(0, "precision");
  const Value* method_given = arguments.take(1, "method");
  const int64_t places = places_given != nullptr ? need_integer(*places_given, "precision") : 0;
  const std::string method =
      method_given != nullptr ? need_text(*method_given, "method").bytes() : "common";
  const Value& number = need_number(input, "round");
  if (places < -300 || places > 300) {
    fail(Code::invalid_argument, "precision {} is not from -300 to 300", places);
  }
  if (method == "common") {
    if (number.is_whole() && places >= 0) return Value(number.integer());
    if (places >= 0) {
      // Python rounds to the correctly rounded decimal digits.
      const auto rounded = parse_number(fmt::format("{:.{}f}", number.real(), places));
      return Value(rounded.value_or(number.real())); // inf and nan stay
    }
  }
  const double unit = std::pow(10.0, static_cast<double>(places));
  const double scaled = number.real() * unit;
  if (method == "common") {
    const double rounded = std::nearbyint(scaled) / unit;
    if (!number.is_whole()) return Value(rounded);
    const auto whole = truncated(rounded);
    if (!whole) fail(Code::invalid_argument, "an integer needs more than 64 bits");
    return Value(*whole);
  }
  if (method == "ceil") return Value(std::ceil(scaled) / unit);
  if (method == "floor") return Value(std::floor(scaled) / unit);
  fail(Code::invalid_argument, "round: method {} is unknown, expected common, ceil or floor",
       method);
}

constexpr Filter kNumberFilters[] = {
    {"int", to_integer}, {"float", to_real}, {"abs", absolute}, {"round", round_number}};

} // namespace

std::span<const Filter> number_filters() {
  return kNumberFilters;
}

} // namespace dllm::text::jinja

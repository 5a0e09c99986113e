// Filters of numbers.

#include "text/jinja/filters.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace dllm::text::jinja {

namespace {

// A number written in a text, as Python's float() reads it; nothing when there is none.
std::optional<double> parse_real(const MarkedText& text) {
  const std::string bytes = strip(text, nullptr, true, true).bytes();
  if (bytes.empty() || bytes.size() > 100) return std::nullopt;
  if (bytes.find_first_not_of("0123456789+-.eE") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(bytes.c_str(), &end);
  return end == bytes.c_str() + bytes.size() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> truncated(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Value to_integer(Evaluator&, const Value& input, Arguments& arguments) {
  const Value* given = arguments.take(0, "default");
  const Value* base_given = arguments.take(1, "base");
  const Value missing = given != nullptr ? *given : Value(int64_t{0});
  const int64_t base = base_given != nullptr ? need_integer(*base_given, "base") : 10;
  if (base < 2 || base > 36) fail(Code::invalid_argument, "base {} is not 2 to 36", base);
  if (input.is_whole()) return Value(input.integer());
  if (!input.is_text()) {
    if (!input.is(Type::real)) return missing;
    const auto whole = truncated(input.real());
    return whole ? Value(*whole) : missing;
  }
  std::string bytes = strip(input.text(), nullptr, true, true).bytes();
  if (!bytes.empty() && bytes[0] == '+') bytes.erase(0, 1);
  int64_t value = 0;
  const char* end = bytes.data() + bytes.size();
  const auto result = std::from_chars(bytes.data(), end, value, static_cast<int>(base));
  if (result.ec == std::errc() && result.ptr == end && !bytes.empty()) return Value(value);
  const auto real = parse_real(input.text());
  const auto whole = real ? truncated(*real) : std::nullopt;
  return whole ? Value(*whole) : missing;
}

Value to_real(Evaluator&, const Value& input, Arguments& arguments) {
  const Value* missing = arguments.take(0, "default");
  if (input.is_number()) return Value(input.real());
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
    fail(Code::invalid_argument, "precision {} is not -300 to 300", places);
  }
  if (method == "common") {
    if (number.is_whole() && places >= 0) return Value(number.integer());
    if (places >= 0) {
      // The decimal digits, correctly rounded, are what Python rounds to.
      return Value(std::strtod(fmt::format("{:.{}f}", number.real(), places).c_str(), nullptr));
    }
  }
  const double unit = std::pow(10.0, static_cast<double>(places));
  const double scaled = number.real() * unit;
  if (method == "common") {
    const double rounded = std::nearbyint(scaled) / unit;
    if (!number.is_whole()) return Value(rounded);
    const auto whole = truncated(rounded);
    if (!whole) fail(Code::invalid_argument, "an integer passes 64 bits");
    return Value(*whole);
  }
  if (method == "ceil") return Value(std::ceil(scaled) / unit);
  if (method == "floor") return Value(std::floor(scaled) / unit);
  fail(Code::invalid_argument, "round: method {} is not common, ceil or floor", method);
}

constexpr Filter kFilters[] = {
    {"int", to_integer}, {"float", to_real}, {"abs", absolute}, {"round", round_number}};

} // namespace

std::span<const Filter> number_filters() {
  return kFilters;
}

} // namespace dllm::text::jinja

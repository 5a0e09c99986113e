// This file implements arithmetic, joining, membership and tests as Python does.
#include "base/named_table.h"
#include "text/jinja/evaluator.h"

#include <cmath>
#include <utility>

namespace dllm::text::jinja {

namespace {

[[noreturn]] void refuse(std::string_view sign, const Value& left, const Value& right) {
  const auto name = [](const Value& value) {
    return value.is_undefined() ? value.undefined_name() + " (undefined)"
                                : std::string(value.type_name());
  };
  fail(Code::invalid_argument, "{} {} {} is not defined", name(left), sign, name(right));
}

Value checked(bool overflow, int64_t result) {
  if (overflow) fail(Code::unimplemented, "an integer needs more than 64 bits");
  return Value(result);
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0 && base == 0) fail(Code::invalid_argument, "0 ** {} divides by zero", exponent);
  if (exponent < 0)
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
      return checked(true, 0);
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return checked(true, 0);
  }
  return Value(result);
}

Value whole(std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (sign == "+") overflow = __builtin_add_overflow(a, b, &result);
  if (sign == "-") overflow = __builtin_sub_overflow(a, b, &result);
  if (sign == "*") overflow = __builtin_mul_overflow(a, b, &result);
  if (sign == "+" || sign == "-" || sign == "*") return checked(overflow, result);
  if (sign == "**") return power(a, b);
  if (b == 0) fail(Code::invalid_argument, "{} {} 0 divides by zero", a, sign);
  if (sign == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1)
    return sign == "//" ? checked(a == INT64_MIN, a == INT64_MIN ? 0 : -a) : Value(int64_t{0});
  if (sign == "//") return Value(floor_divide(a, b));
  return Value(a - floor_divide(a, b) * b);
}

// Returns the quotient, rounded down, and the rest, which has the sign of b.
std::pair<double, double> divide(double a, double b) {
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  const double whole = std::floor(quotient);
  return {quotient - whole > 0.5 ? whole + 1 : whole, rest};
}

Value real(std::string_view sign, double a, double b) {
  if (sign == "+") return Value(a + b);
  if (sign == "-") return Value(a - b);
  if (sign == "*") return Value(a * b);
  if (sign == "**") {
    if (a == 0 && b < 0) fail(Code::invalid_argument, "0 ** {} divides by zero", number_text(b));
    if (a < 0 && std::isfinite(b) && b != std::floor(b))
      fail(Code::unimplemented, "{} ** {} is a complex number", number_text(a), number_text(b));
    return Value(std::pow(a, b));
  }
  if (b == 0) fail(Code::invalid_argument, "{} {} 0 divides by zero", number_text(a), sign);
  if (sign == "/") return Value(a / b);
  const auto [quotient, rest] = divide(a, b);
  return Value(sign == "//" ? quotient : rest);
}

Value repeat(Evaluator& evaluator, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  const size_t size =
      value.is_text() ? value.text().footprint() : value.items().size() * sizeof(Value);
  // The bytes are charged before they are made. The product cannot wrap, because both numbers are
  // below 2^63 / 2^20.
  if (size > 0 && times > (size_t{1} << 40) / size) evaluator.budget.grow(SIZE_MAX / 2);
  evaluator.budget.grow(size * times);
  evaluator.budget.step(size == 0 ? 0 : times);
  if (value.is_text()) {
    MarkedText out;
    for (size_t i = 0; i < times && size > 0; ++i) out.append(value.text());
    return Value(std::move(out));
  }
  Items items;
  for (size_t i = 0; i < times && size > 0; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is(Type::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value add(Evaluator& evaluator, const Value& left, const Value& right) {
  if (left.is_text()) {
    evaluator.budget.grow(left.text().footprint() + right.text().footprint());
    MarkedText out = left.text();
    out.append(right.text());
    return Value(std::move(out));
  }
  evaluator.budget.grow((left.items().size() + right.items().size()) * sizeof(Value));
  Items items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is(Type::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

} // namespace

Value apply_binary(Evaluator& evaluator, const std::string& sign, const Value& left,
                   const Value& right) {
  if (sign == "~") {
    MarkedText out = evaluator.text_of(left);
    out.append(evaluator.text_of(right));
    evaluator.budget.grow(out.footprint());
    return Value(std::move(out));
  }
  if (left.is_whole() && right.is_whole()) return whole(sign, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return real(sign, left.real(), right.real());
  if (sign == "%" && left.is_text()) return Value(format_percent(evaluator, left.text(), right));
  const bool joins = left.type() == right.type() && (left.is_text() || left.is_sequence());
  if (sign == "+" && joins) return add(evaluator, left, right);
  if (sign == "*" && (left.is_text() || left.is_sequence()) && right.is_whole()) {
    return repeat(evaluator, left, right.integer());
  }
  if (sign == "*" && left.is_whole() && (right.is_text() || right.is_sequence())) {
    return repeat(evaluator, right, left.integer());
  }
  refuse(sign, left, right);
}

Value apply_unary(const std::string& sign, const Value& value) {
  if (sign == "not") return Value(!value.truth());
  if (value.is(Type::real)) return Value(sign == "-" ? -value.real() : value.real());
  const int64_t number = need_integer(value, "the operand of " + sign);
  if (sign == "-" && number == INT64_MIN) return checked(true, 0);
  return Value(sign == "-" ? -number : number);
}

bool contains(Evaluator& evaluator, const Value& item, const Value& in) {
  if (in.is_text()) {
    evaluator.budget.step(in.text().size() / 16);
    return in.bytes().find(need_text(item, "the text to find in a string").bytes()) !=
           std::string::npos;
  }
  if (in.is(Type::map)) {
    evaluator.budget.step(in.entries().size() / 16);
    return in.find(item) != nullptr;
  }
  if (in.is_undefined()) return false;
  if (!in.is_sequence()) refuse("in", item, in);
  for (const Value& other : in.items()) {
    if (equal(evaluator.budget, item, other)) return true;
  }
  return false;
}

// The tests: names that may follow `is`.

namespace {

using Simple = bool (*)(const Value&);
struct SimpleTest {
  const char* name;
  Simple holds;
};

int64_t whole(const Value& value) {
  return need_integer(value, "the number tested");
}
bool is_iterable(const Value& v) {
  return v.is_sequence() || v.is_text() || v.is(Type::map) || v.is_undefined();
}

constexpr SimpleTest kSimple[] = {
    {"defined", [](const Value& v) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v) { return v.is_undefined(); }},
    {"none", [](const Value& v) { return v.is_none(); }},
    {"boolean", [](const Value& v) { return v.is(Type::boolean); }},
    {"true", [](const Value& v) { return v.is(Type::boolean) && v.truth(); }},
    {"false", [](const Value& v) { return v.is(Type::boolean) && !v.truth(); }},
    {"integer", [](const Value& v) { return v.is(Type::integer); }},
    {"float", [](const Value& v) { return v.is(Type::real); }},
    {"number", [](const Value& v) { return v.is_number(); }},
    {"string", [](const Value& v) { return v.is_text(); }},
    {"mapping", [](const Value& v) { return v.is(Type::map); }},
    {"iterable", is_iterable},
    {"sequence", is_iterable},
    {"callable", [](const Value& v) { return v.is(Type::function); }},
    {"even", [](const Value& v) { return whole(v) % 2 == 0; }},
    {"odd", [](const Value& v) { return whole(v) % 2 != 0; }},
    {"escaped", [](const Value&) { return false; }},
};

// The two names of a comparison, and the order or equality that it requires.
struct Comparison {
  const char* names[3];
  bool (*holds)(Evaluator&, const Value&, const Value&);
};

constexpr Comparison kComparisons[] = {
    {{"eq", "equalto", "=="},
     [](Evaluator& e, const Value& a, const Value& b) { return equal(e.budget, a, b); }},
    {{"ne", "ne", "!="},
     [](Evaluator& e, const Value& a, const Value& b) { return !equal(e.budget, a, b); }},
    {{"gt", "greaterthan", ">"},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) > 0; }},
    {{"ge", "ge", ">="},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) >= 0; }},
    {{"lt", "lessthan", "<"},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) < 0; }},
    {{"le", "le", "<="},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) <= 0; }},
    {{"in", "in", "in"},
     [](Evaluator& e, const Value& a, const Value& b) { return contains(e, a, b); }},
    {{"sameas", "sameas", "sameas"},
     [](Evaluator& e, const Value& a, const Value& b) {
       return a.type() == b.type() && equal(e.budget, a, b);
     }},
    {{"divisibleby", "divisibleby", "divisibleby"},
     [](Evaluator&, const Value& a, const Value& b) {
       const int64_t by = whole(b);
       if (by == 0) fail(Code::invalid_argument, "divisibleby 0 is not defined");
       return by == -1 || whole(a) % by == 0;
     }},
};

// Returns true when the text has a letter and all letters have the case.
bool is_cased(Evaluator& e, const Value& value, Case wanted) {
  const MarkedText text = e.text_of(value);
  const Case other = wanted == Case::upper ? Case::lower : Case::upper;
  return change_case(e, text, wanted).bytes() == text.bytes() &&
         change_case(e, text, other).bytes() != text.bytes();
}

} // namespace

bool Evaluator::test(const std::string& name, const Value& input, Arguments arguments) {
  budget.step();
  for (const SimpleTest& simple : kSimple) {
    if (name != simple.name) continue;
    arguments.done("test " + name);
    return simple.holds(input);
  }
  if (name == "upper" || name == "lower") {
    arguments.done("test " + name);
    return is_cased(*this, input, name == "upper" ? Case::upper : Case::lower);
  }
  for (const Comparison& comparison : kComparisons) {
    if (name != comparison.names[0] && name != comparison.names[1] && name != comparison.names[2]) {
      continue;
    }
    const Value* other = arguments.take(0, "other");
    if (other == nullptr)
      fail(Code::invalid_argument, "test {} needs a value to compare with", name);
    arguments.done("test " + name);
    return comparison.holds(*this, input, *other);
  }
  std::vector<std::string> known = names_of(kSimple, &SimpleTest::name);
  for (const Comparison& comparison : kComparisons) known.emplace_back(comparison.names[0]);
  known.insert(known.end(), {"upper", "lower"});
  fail_unnamed({"test", "", "", Code::unimplemented}, name, known);
}

} // namespace dllm::text::jinja

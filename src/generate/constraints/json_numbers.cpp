#include "generate/constraints/json_numbers.h"

#include "base/error.h"
#include "generate/constraints/decimal_range.h"
#include "generate/constraints/integer_range.h"
#include "text/automaton/remainders.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace dllm::generate {
namespace {

// Numbers have so few digits that every program reads them.
constexpr const char* kInteger = "-?(?:0|[1-9][0-9]{0,17})";
constexpr const char* kNumber =
    "-?(?:0|[1-9][0-9]{0,17})(?:\\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?";
constexpr int64_t kMostInteger = 999'999'999'999'999'999;
constexpr int kMostDigits = 15; // that a double keeps
// Most states of the remainders of a multipleOf, one for each digit of a number. An automaton has
// at most 8192.
constexpr int64_t kMostDigitStates = 4096;
// Of multiples of a divisor below 1.
constexpr int kMostStepPlaces = 9;
constexpr int64_t kMostStepParts = 1000;

class NumberReader {
public:
  NumberReader(const Json& schema, const std::string& where) : schema_(schema), where_(where) {}

  std::string pattern(bool is_whole) const {
    if (schema_.contains("multipleOf")) {
      const std::optional<Step> step = decimal_step();
      if (!step) return multiples();
      // Each whole number is a multiple of a part of 1.
      return is_whole ? integers() : decimal_multiples(*step);
    }
    if (is_whole) return integers();
    return has_bounds() ? decimals() : kNumber;
  }

private:
  struct Bound {
    const char* key;
    bool is_low, is_exclusive;
  };
  static constexpr Bound kBounds[] = {{"minimum", true, false},
                                      {"maximum", false, false},
                                      {"exclusiveMinimum", true, true},
                                      {"exclusiveMaximum", false, true}};
  struct Range {
    int64_t low = -kMostInteger, high = kMostInteger;
    bool is_free() const { return low == -kMostInteger && high == kMostInteger; }
    std::string pattern() const {
      return is_free() ? kInteger : "(?:" + pattern_of_range(low, high) + ")";
    }
  };

  [[noreturn]] void refuse(const std::string& what, std::string_view hint) const {
    fail_with_hint(std::string(hint), Code::invalid_argument, "{}: {}", where_, what);
  }

  bool has_bounds() const {
    return std::ranges::any_of(kBounds,
                               [&](const Bound& bound) { return schema_.contains(bound.key); });
  }

  // A divisor below 1: units of 10^-places, which go into 1.
  struct Step {
    int places = 0;
    int64_t units = 0, one = 1;
  };

  // Returns a divisor that goes into 1, such as 0.25; nothing: it is another number.
  std::optional<Step> decimal_step() const {
    const Json& value = schema_["multipleOf"];
    const double divisor = value.is_number() ? value.get<double>() : 0;
    if (!(divisor > 0 && divisor < 1)) return std::nullopt;
    Step step;
    for (step.places = 1; step.places <= kMostStepPlaces; ++step.places) {
      step.one *= 10;
      const std::string digits = fmt::format("{:.{}f}", divisor, step.places);
      if (std::strtod(digits.c_str(), nullptr) != divisor) continue;
      step.units = std::strtoll(digits.c_str() + 2, nullptr, 10);
      const bool is_known = step.one % step.units == 0 &&
                            (step.units == 1 || step.one / step.units <= kMostStepParts);
      return is_known ? std::optional(step) : std::nullopt;
    }
    return std::nullopt;
  }

  std::string decimal_multiples(const Step& step) const {
    std::string parts; // after the point
    if (step.units == 1) {
      parts = fmt::format("[0-9]{{1,{}}}", step.places);
    } else {
      for (int64_t part = step.units; part < step.one; part += step.units) {
        std::string digits = fmt::format("{:0{}}", part, step.places);
        digits.erase(digits.find_last_not_of('0') + 1);
        parts += (parts.empty() ? "" : "|") + digits;
      }
    }
    const std::string made = fmt::format("-?(?:0|[1-9][0-9]{{0,{}}})(?:\\.(?:{}))?",
                                         kMostDigits - step.places - 1, parts);
    return has_bounds() ? fmt::format("(?&({})({}))", decimals(), made) : "(?:" + made + ")";
  }

  // Calls `take` with each bound that the schema has, and its value.
  template <class Take> void each_bound(const Take& take) const {
    for (const Bound& bound : kBounds) {
      const Json value = schema_.value(bound.key, Json());
      if (value.is_null()) continue;
      if (!value.is_number()) {
        refuse(fmt::format("{} is not a number", bound.key),
               "write a number, such as \"exclusiveMinimum\": 0");
      }
      take(bound, value);
    }
  }

  // Returns the integer next to a value, at most kMostInteger + 1 away from 0.
  static int64_t next_integer(const Json& value, double (*round)(double)) {
    constexpr int64_t kBeyond = kMostInteger + 1;
    if (value.is_number_unsigned() && value.get<uint64_t>() > kMostInteger) return kBeyond;
    if (value.is_number_integer()) return std::clamp(value.get<int64_t>(), -kBeyond, kBeyond);
    const double rounded = round(value.get<double>());
    if (std::abs(rounded) >= static_cast<double>(kBeyond)) return rounded < 0 ? -kBeyond : kBeyond;
    return static_cast<int64_t>(rounded);
  }

  Range range() const {
    Range made;
    each_bound([&](const Bound& bound, const Json& value) {
      const auto round = [](double x) { return std::floor(x); };
      const auto round_up = [](double x) { return std::ceil(x); };
      // The first integer above an exclusive minimum is the floor and 1.
      const int64_t step = bound.is_exclusive ? 1 : 0;
      if (bound.is_low)
        made.low = std::max(made.low, next_integer(value, step == 1 ? +round : +round_up) + step);
      else
        made.high = std::min(made.high, next_integer(value, step == 1 ? +round_up : +round) - step);
    });
    if (made.low > made.high) refuse("no integer is in the range", "change its bounds");
    return made;
  }

  std::string integers() const { return range().pattern(); }

  // Returns how many states the remainders need at most. A factor of 10 takes one.
  static int64_t most_remainders(int64_t divisor) {
    int64_t tens = 0;
    for (; divisor % 10 == 0; divisor /= 10) ++tens;
    return divisor + tens;
  }

  std::string multiples() const {
    const Json& value = schema_["multipleOf"];
    const double divisor = value.is_number() ? value.get<double>() : 0;
    const bool is_known =
        divisor >= 1 && divisor <= text::kMostDivisor && std::trunc(divisor) == divisor;
    if (!is_known) {
      refuse(fmt::format("multipleOf {} is neither a whole number from 1 to {} nor a part of 1",
                         value.dump(), text::kMostDivisor),
             "write a part of 1, such as 0.5 or 0.01, or check the answer for it");
    }
    const auto step = static_cast<int64_t>(divisor);
    const Range own = range();
    const int64_t last = own.high - ((own.high % step) + step) % step; // that is not above `high`
    if (last < own.low)
      refuse(fmt::format("no multiple of {} is in the range", step), "change its bounds");
    const auto digits = static_cast<int64_t>(
        std::to_string(std::max(std::abs(own.low), std::abs(own.high))).size());
    const int64_t states = digits * most_remainders(step);
    if (states > kMostDigitStates) {
      refuse(fmt::format("multipleOf {} of numbers with {} digits needs more than {} states", step,
                         digits, kMostDigitStates),
             "give a minimum and a maximum with fewer digits");
    }
    return step == 1 ? own.pattern() : fmt::format("(?&({})(-?(?%{})))", own.pattern(), step);
  }

  // Returns how many digits a bound has after its point.
  int places_of(const char* key, double value) const {
    for (int places = 0; places <= kMostDigits; ++places) {
      if (std::strtod(fmt::format("{:.{}f}", value, places).c_str(), nullptr) == value)
        return places;
    }
    refuse(fmt::format("{} {} has more than {} digits", key, value, kMostDigits),
           "write a bound with fewer digits");
  }

  std::string decimals() const {
    constexpr double kLarge = 1e14; // so one digit is left after the point
    DecimalRange made{.places = kMostDigits - 1};
    int most_places = 1;
    each_bound([&](const Bound& bound, const Json& value) {
      const double size = std::abs(value.get<double>());
      if (size >= kLarge) refuse(fmt::format("{} is not below 10^14", bound.key), kFewer);
      most_places = std::max(most_places, places_of(bound.key, value.get<double>()));
      const int digits = static_cast<int>(fmt::format("{:.0f}", std::floor(size)).size());
      made.places = std::min(made.places, kMostDigits - digits);
    });
    if (most_places > made.places) {
      refuse(fmt::format("its bounds have more than {} digits together", kMostDigits), kFewer);
    }
    each_bound([&](const Bound& bound, const Json& value) {
      std::string digits = fmt::format("{:.{}f}", value.get<double>(), made.places);
      std::erase(digits, '.');
      const int64_t units = std::strtoll(digits.c_str(), nullptr, 10);
      const int64_t step = bound.is_exclusive ? 1 : 0;
      if (bound.is_low)
        made.low = std::max(made.low.value_or(units + step), units + step);
      else
        made.high = std::min(made.high.value_or(units - step), units - step);
    });
    if (made.low && made.high && *made.low > *made.high)
      refuse("no number is in the range", "change its bounds");
    return "(?:" + pattern_of_decimals(made) + ")";
  }

  static constexpr std::string_view kFewer = "write a bound with fewer digits";

  const Json& schema_;
  const std::string& where_;
};

} // namespace

std::string pattern_of_any_number() {
  return kNumber;
}

std::string pattern_of_numbers(const Json& schema, bool is_whole, const std::string& where) {
  return NumberReader(schema, where).pattern(is_whole);
}

} // namespace dllm::generate

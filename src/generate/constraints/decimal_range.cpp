#include "generate/constraints/decimal_range.h"

#include "generate/constraints/integer_range.h"

#include <fmt/format.h>

#include <algorithm>

namespace dllm::generate {
namespace {

constexpr int64_t kMostWhole = 999'999'999'999'999'999;

// A number from 0 on. The fraction has all places.
struct Decimal {
  int64_t whole = 0;
  std::string fraction;
};

Decimal decimal_of(int64_t units, int places) {
  int64_t one = 1;
  for (int i = 0; i < places; ++i) one *= 10;
  return {units / one, fmt::format("{:0{}}", units % one, places)};
}

bool has_only(const std::string& digits, char digit) {
  return digits.find_first_not_of(digit) == std::string::npos;
}

// Returns a pattern of the digits that may follow, from one digit to all of them. Digits that are
// left out are zeros.
std::string digits_between(const std::string& low, const std::string& high) {
  const size_t rest = low.size() - 1;
  if (has_only(low, '0') && has_only(high, '9')) return fmt::format("[0-9]{{1,{}}}", rest + 1);
  const auto after = [&](char digit, const std::string& from, const std::string& to) {
    if (rest == 0) return std::string(1, digit);
    const std::string more = digits_between(from, to);
    return fmt::format("{}(?:{}){}", digit, more, has_only(from, '0') ? "?" : "");
  };
  const std::string low_rest = low.substr(1), high_rest = high.substr(1);
  if (low[0] == high[0]) return after(low[0], low_rest, high_rest);
  std::string made = after(low[0], low_rest, std::string(rest, '9')) + "|" +
                     after(high[0], std::string(rest, '0'), high_rest);
  if (low[0] + 1 < high[0]) {
    made += fmt::format("|[{}-{}][0-9]{{0,{}}}", static_cast<char>(low[0] + 1),
                        static_cast<char>(high[0] - 1), rest);
  }
  return made;
}

// Returns the pattern of the point and the digits after it.
std::string fraction_between(const std::string& low, const std::string& high) {
  return fmt::format("(?:\\.(?:{})){}", digits_between(low, high), has_only(low, '0') ? "?" : "");
}

std::string numbers_between(const Decimal& low, const Decimal& high) {
  if (low.whole == high.whole)
    return std::to_string(low.whole) + fraction_between(low.fraction, high.fraction);
  const std::string least(low.fraction.size(), '0'), most(low.fraction.size(), '9');
  std::string made = fmt::format("{}{}|{}{}", low.whole, fraction_between(low.fraction, most),
                                 high.whole, fraction_between(least, high.fraction));
  if (low.whole + 1 < high.whole) {
    made += fmt::format("|(?:{}){}", pattern_of_range(low.whole + 1, high.whole - 1),
                        fraction_between(least, most));
  }
  return made;
}

} // namespace

std::string pattern_of_decimals(const DecimalRange& range) {
  const Decimal most = {kMostWhole, std::string(static_cast<size_t>(range.places), '9')};
  const auto end = [&](const std::optional<int64_t>& units, int64_t sign) {
    return units ? decimal_of(sign * *units, range.places) : most;
  };
  std::string made;
  if (!range.low || *range.low < 0) {
    const int64_t first = range.high ? std::max<int64_t>(1, -*range.high) : 1;
    made = fmt::format("-(?:{})",
                       numbers_between(decimal_of(first, range.places), end(range.low, -1)));
  }
  if (!range.high || *range.high >= 0) {
    const int64_t first = range.low ? std::max<int64_t>(0, *range.low) : 0;
    made += made.empty() ? "" : "|";
    made += numbers_between(decimal_of(first, range.places), end(range.high, 1));
  }
  return made;
}

} // namespace dllm::generate

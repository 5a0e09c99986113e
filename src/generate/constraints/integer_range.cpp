#include "generate/constraints/integer_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace dllm::generate {
namespace {

std::string any_digits(size_t count) {
  return count == 0 ? "" : fmt::format("[0-9]{{{}}}", count);
}

// Returns a pattern of the numbers from low to high, which have the same number of digits.
std::string same_length(const std::string& low, const std::string& high) {
  if (low.empty()) return "";
  const size_t rest = low.size() - 1;
  const std::string least(rest, '0'), most(rest, '9');
  const std::string low_rest = low.substr(1), high_rest = high.substr(1);
  if (low_rest == least && high_rest == most)
    return fmt::format("[{}-{}]{}", low[0], high[0], any_digits(rest));
  if (low[0] == high[0]) return low[0] + ("(?:" + same_length(low_rest, high_rest) + ")");
  std::string made = fmt::format("{}(?:{})|{}(?:{})", low[0], same_length(low_rest, most), high[0],
                                 same_length(least, high_rest));
  if (low[0] + 1 < high[0]) {
    made += fmt::format("|[{}-{}]{}", static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1),
                        any_digits(rest));
  }
  return made;
}

// Adds the patterns of the numbers from low to high, one for each number of digits. low >= 0.
void add_patterns(const std::string& sign, int64_t low, int64_t high,
                  std::vector<std::string>& made) {
  int64_t first = 0, last = 9; // of the numbers with so many digits
  for (;; first = last + 1, last = 10 * last + 9) {
    const int64_t begin = std::max(first, low), end = std::min(last, high);
    if (begin <= end)
      made.push_back(sign + "(?:" + same_length(std::to_string(begin), std::to_string(end)) + ")");
    if (last >= high) return;
  }
}

} // namespace

std::string pattern_of_range(int64_t low, int64_t high) {
  std::vector<std::string> patterns;
  if (low < 0) add_patterns("-", std::max<int64_t>(1, -high), -low, patterns);
  if (high >= 0) add_patterns("", std::max<int64_t>(0, low), high, patterns);
  std::string made;
  for (const std::string& pattern : patterns) made += (made.empty() ? "" : "|") + pattern;
  return made;
}

} // namespace dllm::generate

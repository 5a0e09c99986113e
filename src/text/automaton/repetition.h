#pragma once
// Reads how often a part of a pattern or of a grammar is repeated. Private to src/text/automaton.

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dllm::text {

inline constexpr int32_t kMostRepeats = 1 << 16;

struct Repetition {
  int32_t least = 0, most = -1; // most -1: any number of times
};

// Reads a number of repeats at text[at], and moves `at` to its end. Returns nothing for no digits.
// refuse(what, hint): fails.
template <class Refuse>
std::optional<int32_t> read_repeats(std::string_view text, size_t& at, const Refuse& refuse) {
  std::optional<int32_t> count;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    count = 10 * count.value_or(0) + (text[at] - '0');
    if (*count > kMostRepeats)
      refuse(fmt::format("a repetition of more than {}", kMostRepeats), "repeat fewer times");
  }
  return count;
}

// Reads *, +, ?, {2}, {2,}, {,5} or {2,5} at text[at], and moves `at` to its end. Returns nothing
// when none of them is there. has_blanks: spaces and tabs may be between the braces.
// refuse(what, hint): fails; `at` is then the place of the fault. hint: what to write in the
// braces.
template <class Refuse>
std::optional<Repetition> read_repetition(std::string_view text, size_t& at, bool has_blanks,
                                          std::string_view hint, const Refuse& refuse) {
  const auto skip = [&] {
    while (has_blanks && at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  };
  const auto take = [&](char c) {
    const bool is_next = at < text.size() && text[at] == c;
    at += is_next ? 1 : 0;
    return is_next;
  };
  const auto read_count = [&] {
    skip();
    const std::optional<int32_t> count = read_repeats(text, at, refuse);
    skip();
    return count;
  };
  if (take('*')) return Repetition{0, -1};
  if (take('+')) return Repetition{1, -1};
  if (take('?')) return Repetition{0, 1};
  if (!take('{')) return std::nullopt;
  const std::optional<int32_t> least = read_count();
  std::optional<int32_t> most = least;
  if (take(',')) most = read_count();
  if (!take('}') || (!least && !most)) refuse("a repetition is {2}, {2,} or {2,5}", hint);
  if (least && most && *most < *least)
    refuse("a repetition whose end is below its begin", "write {2,5}");
  return Repetition{least.value_or(0), most.value_or(-1)};
}

} // namespace dllm::text

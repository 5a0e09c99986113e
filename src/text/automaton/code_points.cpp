#include "text/automaton/code_points.h"

#include "text/unicode.h"

#include <algorithm>
#include <iterator>

namespace dllm::text {
namespace {

constexpr uint32_t kLast = 0x10FFFF;
constexpr CodeRange kSurrogates = {0xD800, 0xDFFF};
constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kLast}; // of 1 to 4 bytes

std::string utf8_text(uint32_t code) {
  std::string text;
  append_utf8(text, code);
  return text;
}

// Adds a range whose ends have the same number of bytes. Where the last bytes do not run from 0x80
// to 0xBF, the range is cut.
void add_range(uint32_t first, uint32_t last, std::vector<ByteRanges>& made) {
  for (uint32_t bits = 6; bits <= 18; bits += 6) { // of one, two and three last bytes
    const uint32_t rest = (1u << bits) - 1;
    if ((first & ~rest) == (last & ~rest)) break; // the same bytes before them
    if ((first & rest) != 0) {
      add_range(first, first | rest, made);
      return add_range((first | rest) + 1, last, made);
    }
    if ((last & rest) != rest) {
      add_range(first, (last & ~rest) - 1, made);
      return add_range(last & ~rest, last, made);
    }
  }
  const std::string low = utf8_text(first), high = utf8_text(last);
  ByteRanges bytes;
  for (size_t i = 0; i < low.size(); ++i)
    bytes.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
  made.push_back(std::move(bytes));
}

} // namespace

void CodePoints::add(uint32_t first, uint32_t last) {
  ranges_.push_back({first, last});
  join();
}

void CodePoints::add(const CodePoints& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  join();
}

void CodePoints::join() {
  std::ranges::sort(ranges_, {}, &CodeRange::first);
  std::vector<CodeRange> joined;
  for (const CodeRange& range : ranges_) {
    if (!joined.empty() && range.first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, range.last);
    else
      joined.push_back(range);
  }
  ranges_ = std::move(joined);
}

CodePoints CodePoints::others() const {
  CodePoints taken = *this, made;
  taken.add(kSurrogates.first, kSurrogates.last);
  uint32_t next = 0;
  for (const CodeRange& range : taken.ranges_) {
    if (range.first > next) made.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) made.ranges_.push_back({next, kLast});
  return made;
}

std::vector<ByteRanges> utf8_of(const CodePoints& set) {
  std::vector<ByteRanges> made;
  const auto add = [&](uint32_t first, uint32_t last) {
    uint32_t begin = 0;
    for (const uint32_t end : kLastOfLength) {
      const uint32_t low = std::max(first, begin), high = std::min(last, end);
      if (low <= high) add_range(low, high, made);
      begin = end + 1;
    }
  };
  for (const CodeRange& range : set.ranges()) {
    if (range.first < kSurrogates.first)
      add(range.first, std::min(range.last, kSurrogates.first - 1));
    if (range.last > kSurrogates.last) add(std::max(range.first, kSurrogates.last + 1), range.last);
  }
  return made;
}

} // namespace dllm::text

#include "generate/holes.h"

#include "base/error.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace dllm::generate {
namespace {

constexpr std::string_view kHole = "<mask";
constexpr int64_t kMostOpen = 999999;   // positions of one hole
constexpr int64_t kMostInAll = 1 << 24; // positions of all holes

// Returns the number of open positions for the text between "<mask" and ">"; 0: it is not a hole.
int64_t open_positions(std::string_view inside) {
  if (inside.empty()) return 1;
  int64_t number = 0;
  const char* end = inside.data() + inside.size();
  const auto [rest, error] = std::from_chars(inside.data() + 1, end, number);
  const bool is_number = inside[0] == ':' && error == std::errc() && rest == end;
  return is_number && number >= 1 && number <= kMostOpen ? number : 0;
}

} // namespace

std::vector<Hole> find_holes(std::string_view text) {
  constexpr size_t kLongest = 20; // bytes between "<mask" and ">"; more is text
  std::vector<Hole> holes;
  int64_t open = 0;
  for (size_t at = text.find(kHole); at != std::string_view::npos; at = text.find(kHole, at)) {
    const size_t inside = at + kHole.size(), close = text.find('>', inside);
    if (close == std::string_view::npos || close - inside > kLongest) {
      at = inside;
      continue;
    }
    const Hole hole{at, close + 1, open_positions(text.substr(inside, close - inside))};
    if (hole.length == 0) {
      fail_with_hint(
          fmt::format("write <mask:N> for N open tokens, 1 to {}, or <mask> for one", kMostOpen),
          Code::invalid_argument, "{} is not a hole", text.substr(at, hole.end - at));
    }
    open += hole.length;
    if (open > kMostInAll)
      fail(Code::out_of_range, "the holes of the text have more than {} positions", kMostInAll);
    holes.push_back(hole);
    at = hole.end;
  }
  return holes;
}

namespace {

// Returns the text that ids have after the token `before`, with the space that begins a word.
std::string text_after(const text::Tokenizer& tokenizer, std::optional<int32_t> before,
                       std::vector<int32_t> ids) {
  // A model may have more tokens than its tokenizer.
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= tokenizer.size(); });
  if (!before || *before < 0 || *before >= tokenizer.size()) return tokenizer.decode(ids);
  const std::string first = tokenizer.decode(std::span(&*before, 1));
  ids.insert(ids.begin(), *before);
  const std::string both = tokenizer.decode(ids);
  if (both.starts_with(first)) return both.substr(first.size());
  return tokenizer.decode(std::span(ids).subspan(1)); // a character of several tokens
}

} // namespace

std::string text_with_holes(const text::Tokenizer& tokenizer, std::span<const int32_t> ids,
                            std::span<const text::PositionState> states) {
  const auto is_open = [&](size_t i) { return states[i] == text::PositionState::masked; };
  const std::vector<int32_t> start = tokenizer.encode("");
  const bool begins =
      start.size() <= ids.size() && std::ranges::equal(start, ids.first(start.size()));
  std::string text;
  std::optional<int32_t> before; // the last decided token
  for (size_t begin = begins ? start.size() : 0; begin < ids.size();) {
    size_t end = begin;
    while (end < ids.size() && is_open(end) == is_open(begin)) ++end;
    if (is_open(begin)) {
      text += fmt::format("<mask:{}>", end - begin);
    } else {
      const auto part = ids.subspan(begin, end - begin);
      text += text_after(tokenizer, before, {part.begin(), part.end()});
      before = part.back();
    }
    begin = end;
  }
  return text;
}

} // namespace dllm::generate

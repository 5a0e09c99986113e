#include "text/data/collate.h"

#include "base/error.h"

#include <algorithm>
#include <charconv>

namespace dllm::text {

int64_t Example::prompt() const {
  return std::find(keep.begin(), keep.end(), uint8_t{0}) - keep.begin();
}

void Example::resize(int64_t size) {
  if (size >= static_cast<int64_t>(ids.size())) return;
  const auto left = static_cast<size_t>(std::max<int64_t>(size, 0));
  ids.resize(left);
  keep.resize(left);
  if (!seen.empty()) seen.resize(left);
  if (!trajectory.empty()) trajectory.resize(left);
}

void extend_with_eos(std::vector<Example>& rows, int64_t block, int32_t eos) {
  const auto step = static_cast<size_t>(block);
  for (Example& row : rows) {
    const size_t size = (row.ids.size() + step - 1) / step * step;
    row.ids.resize(size, eos);
    row.keep.resize(size, 0);
    if (!row.trajectory.empty()) row.trajectory.resize(size, 0);
  }
}

void cut_responses(std::vector<Example>& rows, int64_t length) {
  for (Example& row : rows) row.resize(row.prompt() + length);
}

namespace {

int64_t longest_of(std::span<const Example> rows) {
  size_t longest = 0;
  for (const Example& row : rows) longest = std::max(longest, row.ids.size());
  return static_cast<int64_t>(longest);
}

} // namespace

void cut_columns(std::vector<Example>& rows, int64_t count, PadSide side) {
  const int64_t longest = longest_of(rows);
  for (Example& row : rows) {
    const auto size = static_cast<int64_t>(row.ids.size());
    row.resize((side == PadSide::right ? longest : size) - count);
  }
}

namespace {

// Copies `values` into row `row` of `out`. Values that are too long lose the columns on the padded
// side.
template <class T>
void put_row(std::span<const T> values, size_t row, size_t width, PadSide side,
             std::vector<T>& out) {
  const size_t count = std::min(values.size(), width);
  const bool left = side == PadSide::left;
  const auto from = values.subspan(left ? values.size() - count : 0, count);
  const size_t at = row * width + (left ? width - count : 0);
  std::copy(from.begin(), from.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
}

void check_lengths(const Example& row, size_t number, int64_t width) {
  const auto check = [&](size_t size, const char* what) {
    if (size == row.ids.size()) return;
    fail(Code::invalid_argument, "row {} of the batch has {} ids but {} numbers in {}", number,
         row.ids.size(), size, what);
  };
  check(row.keep.size(), "keep");
  if (!row.seen.empty()) check(row.seen.size(), "seen");
  if (static_cast<int64_t>(row.ids.size()) > width) {
    fail_with_hint("cut it, or make the batch wider", Code::invalid_argument,
                   "row {} of the batch has {} ids, a row takes at most {}", number, row.ids.size(),
                   width);
  }
}

} // namespace

PaddedRows pad_rows(std::span<const Example> rows, int64_t width, int32_t pad, PadSide side) {
  PaddedRows made;
  made.width = width > 0 ? width : longest_of(rows);
  const auto columns = static_cast<size_t>(made.width);
  const size_t size = rows.size() * columns;
  const bool noisy = std::any_of(rows.begin(), rows.end(),
                                 [](const Example& row) { return row.flag || !row.noisy.empty(); });
  made.ids.assign(size, pad);
  made.keep.assign(size, 1);
  made.seen.assign(size, 0);
  if (noisy) made.noisy.assign(size, pad);
  if (std::ranges::any_of(rows, [](const Example& row) { return !row.trajectory.empty(); }))
    made.trajectory.assign(size, 0);
  for (size_t r = 0; r < rows.size(); ++r) {
    const Example& row = rows[r];
    check_lengths(row, r, made.width);
    put_row<int32_t>(row.ids, r, columns, side, made.ids);
    put_row<uint8_t>(row.keep, r, columns, side, made.keep);
    const std::vector<uint8_t> all(row.seen.empty() ? row.ids.size() : 0, 1);
    put_row<uint8_t>(row.seen.empty() ? all : row.seen, r, columns, side, made.seen);
    if (!row.trajectory.empty())
      put_row<int32_t>(row.trajectory, r, columns, side, made.trajectory);
    if (!noisy) continue;
    put_row<int32_t>(row.noisy.empty() ? row.ids : row.noisy, r, columns, side, made.noisy);
    made.flags.push_back(row.flag);
  }
  return made;
}

EditStart EditStart::parse(std::string_view text) {
  constexpr std::string_view kBegin = "masks[length:";
  if (text == "empty") return {0};
  if (text == "masks") return {128};
  if (text.starts_with(kBegin) && text.ends_with("]")) {
    const std::string_view digits = text.substr(kBegin.size(), text.size() - kBegin.size() - 1);
    EditStart start;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), start.masks);
    const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
    if (whole && start.masks >= 0 && start.masks <= (int64_t{1} << 24)) return start;
  }
  fail_with_hint("write empty, masks or masks[length:64]", Code::invalid_argument,
                 "\"{}\" is not a start of an edit flow", text);
}

EditPair make_edit_pair(std::span<const int32_t> ids, int64_t prompt, int32_t bos, int32_t mask,
                        const EditStart& start) {
  if (prompt > static_cast<int64_t>(ids.size()))
    fail(Code::invalid_argument, "the prompt has {} tokens, but the row has {}", prompt,
         ids.size());
  EditPair pair;
  if (prompt < 0 && (ids.empty() || ids.front() != bos)) pair.to.push_back(bos);
  pair.to.insert(pair.to.end(), ids.begin(), ids.end());
  pair.from.assign(pair.to.begin(), pair.to.begin() + (prompt < 0 ? 1 : prompt));
  pair.from.insert(pair.from.end(), static_cast<size_t>(start.masks), mask);
  return pair;
}

namespace {

// MT19937 seeded as CPython does: init_by_array over the 32-bit words of the seed.
class Twister {
public:
  explicit Twister(uint64_t seed) {
    const uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    const uint32_t words = key[1] != 0 ? 2 : 1;
    state_[0] = 19650218;
    for (uint32_t i = 1; i < kSize; ++i) state_[i] = 1812433253u * turned(i - 1) + i;
    uint32_t i = 1, j = 0;
    const auto next = [&] {
      if (++i < kSize) return;
      state_[0] = state_[kSize - 1];
      i = 1;
    };
    for (uint32_t k = 0; k < kSize; ++k, next()) {
      state_[i] = (state_[i] ^ (turned(i - 1) * 1664525u)) + key[j] + j;
      j = (j + 1) % words;
    }
    for (uint32_t k = 0; k + 1 < kSize; ++k, next())
      state_[i] = (state_[i] ^ (turned(i - 1) * 1566083941u)) - i;
    state_[0] = 0x80000000u;
  }

  uint32_t next() {
    if (at_ == kSize) refill();
    uint32_t y = state_[at_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }

private:
  static constexpr uint32_t kSize = 624, kShift = 397;

  uint32_t turned(uint32_t i) const { return state_[i] ^ (state_[i] >> 30); }
  void refill() {
    for (uint32_t i = 0; i < kSize; ++i) {
      const uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % kSize] & 0x7fffffffu);
      state_[i] = state_[(i + kShift) % kSize] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfu : 0u);
    }
    at_ = 0;
  }

  uint32_t state_[kSize];
  uint32_t at_ = kSize;
};

// Returns a number in [0, limit) as Random._randbelow does, which draws bits until they make a
// number below the limit.
uint64_t draw_below(Twister& twister, uint64_t limit) {
  int bits = 0;
  while (limit >> bits != 0) ++bits;
  for (;;) {
    uint64_t drawn = twister.next();
    if (bits <= 32)
      drawn >>= 32 - bits;
    else
      drawn |= static_cast<uint64_t>(twister.next() >> (64 - bits)) << 32;
    if (drawn < limit) return drawn;
  }
}

} // namespace

std::vector<int64_t> python_order(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  Twister twister(seed);
  for (size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<size_t>(draw_below(twister, i + 1))]);
  return order;
}

} // namespace dllm::text

#include "cpu/kernels/attention/attention.h"

#include "base/error.h"
#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace dllm::cpu {
namespace {

// Cuts `ranges` to [begin, end).
void keep(KeyRanges& ranges, int64_t begin, int64_t end) {
  for (KeyRange& range : ranges.part) {
    range.begin = std::max(range.begin, begin);
    range.end = std::min(range.end, end);
  }
}

// Applies two_stream to the ranges of position `at`. A row has `length` noised positions, then
// `length` clean positions (BD3LM, Arriola et al. 2025). A noised position sees its own noised
// block and the clean blocks before it. A clean position sees the clean blocks up to its own.
void keep_two_stream(KeyRanges& ranges, int64_t at, int64_t length, int64_t block) {
  const bool noised = at < length;
  const int64_t own = (noised ? at : at - length) / block * block;
  const KeyRange whole = ranges.part[0];
  ranges.part[0] = noised ? KeyRange{own, std::min(own + block, length)} : KeyRange{};
  ranges.part[1] = {length, length + own + (noised ? 0 : block)};
  keep(ranges, whole.begin, whole.end);
}

// Returns the bits [begin, end) of a tile.
uint64_t range_bits(int64_t begin, int64_t end) {
  begin = std::clamp<int64_t>(begin, 0, kKeyTile);
  end = std::clamp<int64_t>(end, 0, kKeyTile);
  if (begin >= end) return 0;
  const uint64_t below_end = end == kKeyTile ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
  return below_end & ~((uint64_t{1} << begin) - 1);
}

} // namespace

MaskPlan::MaskPlan(const CompileInfo& info, size_t first_input)
    : queries_(info.input(0).shape.dim(1)), keys_(info.input(1).shape.dim(1)) {
  size_t input = first_input;
  if (info.node.attributes.flag("has_query_start")) query_start_ = static_cast<int>(input++);
  const std::string& kinds = info.node.attributes.text("kinds");
  if (kinds == "full") return;
  struct Entry {
    std::string_view name;
    Kind kind;
    size_t params;
  };
  constexpr Entry entries[] = {
      {"causal", Kind::causal, 0},         {"block_causal", Kind::block_causal, 1},
      {"two_stream", Kind::two_stream, 2}, {"key_range", Kind::key_range, 2},
      {"window", Kind::window, 1},         {"segments", Kind::segments, 2},
      {"key_limit", Kind::key_limit, 1},   {"key_keep", Kind::key_keep, 1},
      {"dense", Kind::dense, 1},
  };
  for (size_t at = 0; at <= kinds.size();) {
    const size_t plus = std::min(kinds.find('+', at), kinds.size());
    const std::string_view name = std::string_view(kinds).substr(at, plus - at);
    const Entry* entry = std::find_if(std::begin(entries), std::end(entries),
                                      [&](const Entry& e) { return e.name == name; });
    if (entry == std::end(entries))
      fail(Code::internal, "[attention] has no kernel for a mask of kind {}", name);
    terms_.push_back({entry->kind, input});
    tests_single_keys_ |= entry->kind == Kind::segments || entry->kind == Kind::key_keep ||
                          entry->kind == Kind::dense;
    input += entry->params;
    at = plus + 1;
  }
  // two_stream replaces the first range by two ranges, so it must come before the terms that cut
  // ranges.
  std::stable_partition(terms_.begin(), terms_.end(),
                        [](const Term& term) { return term.kind == Kind::two_stream; });
}

KeyRanges MaskView::ranges(int64_t batch, int64_t query) const {
  KeyRanges ranges;
  ranges.part[0] = {0, plan_.keys_};
  const int64_t start =
      plan_.query_start_ < 0 ? 0 : call_.inputs[plan_.query_start_].in<int32_t>()[batch];
  const int64_t at = start + query;
  for (const MaskPlan::Term& term : plan_.terms_) {
    switch (term.kind) {
    case MaskPlan::Kind::causal: keep(ranges, 0, at + 1); break;
    case MaskPlan::Kind::block_causal: {
      const int64_t block = std::max<int64_t>(1, scalar(term.input));
      keep(ranges, 0, (at / block + 1) * block);
      break;
    }
    case MaskPlan::Kind::two_stream:
      keep_two_stream(ranges, at, scalar(term.input), std::max<int64_t>(1, scalar(term.input + 1)));
      break;
    case MaskPlan::Kind::key_range:
      keep(ranges, call_.inputs[term.input].in<int32_t>()[batch],
           call_.inputs[term.input + 1].in<int32_t>()[batch]);
      break;
    case MaskPlan::Kind::key_limit:
      keep(ranges, 0, call_.inputs[term.input].in<int32_t>()[batch * plan_.queries_ + query]);
      break;
    case MaskPlan::Kind::window: {
      const int64_t reach = scalar(term.input);
      keep(ranges, at - reach, at + reach + 1);
      break;
    }
    default: break;
    }
  }
  return ranges;
}

uint64_t MaskView::bits(const KeyRanges& ranges, int64_t batch, int64_t query,
                        int64_t tile_begin) const {
  uint64_t bits = range_bits(ranges.part[0].begin - tile_begin, ranges.part[0].end - tile_begin) |
                  range_bits(ranges.part[1].begin - tile_begin, ranges.part[1].end - tile_begin);
  if (!plan_.tests_single_keys_) return bits;
  const Rows& math = rows();
  const int64_t count = std::min(kKeyTile, plan_.keys_ - tile_begin);
  for (const MaskPlan::Term& term : plan_.terms_) {
    if (bits == 0) return 0;
    const int64_t row = batch * plan_.keys_ + tile_begin;
    switch (term.kind) {
    case MaskPlan::Kind::segments: {
      const int32_t own = call_.inputs[term.input].in<int32_t>()[batch * plan_.queries_ + query];
      const int32_t* keys = call_.inputs[term.input + 1].in<int32_t>() + row;
      bits &= math.equal_bits(keys, own, count);
      break;
    }
    case MaskPlan::Kind::key_keep: {
      const uint8_t* keys = call_.inputs[term.input].in<uint8_t>() + row;
      bits &= math.nonzero_bits(keys, count);
      break;
    }
    case MaskPlan::Kind::dense: {
      const uint8_t* table = call_.inputs[term.input].in<uint8_t>() +
                             (batch * plan_.queries_ + query) * plan_.keys_ + tile_begin;
      bits &= math.nonzero_bits(table, count);
      break;
    }
    default: break;
    }
  }
  return bits;
}

void hide(uint64_t bits, int64_t width, int64_t step, float* scores) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < width; ++i) {
    if ((bits >> i & 1) == 0) scores[i * step] = kMasked;
  }
}

BlockMask::BlockMask(const MaskView& mask, int64_t batch, int64_t first, int64_t count,
                     const KeyRanges* ranges)
    : mask_(mask), batch_(batch), first_(first), count_(count), ranges_(ranges) {
  any_ = {mask.keys(), 0};
  all_ = {0, mask.tests_single_keys() ? 0 : mask.keys()};
  for (int64_t r = 0; r < count; ++r) {
    for (const KeyRange& range : ranges[r].part) {
      if (range.begin >= range.end) continue;
      any_ = {std::min(any_.begin, range.begin), std::max(any_.end, range.end)};
    }
    // With a second range there is a gap, so the bits of each query are tested.
    const bool one = ranges[r].part[1].begin >= ranges[r].part[1].end;
    all_ = {std::max(all_.begin, ranges[r].part[0].begin),
            one ? std::min(all_.end, ranges[r].part[0].end) : 0};
  }
  if (any_.begin >= any_.end) any_ = {};
}

bool BlockMask::bits(int64_t tile, uint64_t* bits) const {
  const int64_t begin = tile * kKeyTile, end = std::min(begin + kKeyTile, mask_.keys());
  if (begin >= all_.begin && end <= all_.end) {
    std::fill_n(bits, count_, all_bits(end - begin));
    return true;
  }
  uint64_t live = 0;
  for (int64_t r = 0; r < count_; ++r) {
    bits[r] = mask_.bits(ranges_[r], batch_, (first_ + r) % mask_.queries(), begin);
    live |= bits[r];
  }
  return live != 0;
}

} // namespace dllm::cpu

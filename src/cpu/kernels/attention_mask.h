#pragma once
// A mask (graph/mask.h) at run time: which keys a query sees, as ranges and as bits of one tile of
// 64 keys.

#include "cpu/kernel.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cpu {

inline constexpr int64_t kKeyTile = 64; // counted from key 0: part of the order of sums

struct KeyRange {
  int64_t begin = 0, end = 0;
};

// Keys a query may see before the tests of single keys; the second range is empty but for
// two_stream.
struct KeyRanges {
  KeyRange part[2];
};

// What the attention node says about its mask.
class MaskPlan {
public:
  // first_input: index of the first mask parameter. Attributes kinds, has_query_start.
  MaskPlan(const CompileInfo& info, size_t first_input);

private:
  friend class MaskView;
  enum class Kind {
    causal,
    block_causal,
    two_stream,
    key_range,
    window,
    segments,
    key_limit,
    key_keep,
    dense
  };
  struct Term {
    Kind kind;
    size_t input; // of its first parameter
  };
  std::vector<Term> terms_;
  int query_start_ = -1;
  int64_t queries_, keys_;
  bool tests_single_keys_ = false; // segments, key_keep or dense is among the terms
};

// The mask of one run. Cheap to make; reads the operands in place.
class MaskView {
public:
  MaskView(const MaskPlan& plan, const KernelCall& call) : plan_(plan), call_(call) {}

  KeyRanges ranges(int64_t batch, int64_t query) const;
  int64_t keys() const { return plan_.keys_; }
  bool tests_single_keys() const { return plan_.tests_single_keys_; }
  // Bit i: key tile_begin + i is seen. `ranges` are those of the query.
  uint64_t bits(const KeyRanges& ranges, int64_t batch, int64_t query, int64_t tile_begin) const;

private:
  int64_t scalar(size_t input) const { return *call_.inputs[input].in<int32_t>(); }

  const MaskPlan& plan_;
  const KernelCall& call_;
};

inline uint64_t all_bits(int64_t width) {
  return width >= kKeyTile ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

// -infinity where the bit is 0.
void hide(uint64_t bits, int64_t width, float* scores);

// The mask of a block of queries, tile by tile: dead tiles are skipped, tiles that all rows see
// whole cost nothing.
class BlockMask {
public:
  // Queries [first, first + count) of row `batch`; `ranges` are theirs and must outlive this.
  BlockMask(const MaskView& mask, int64_t batch, int64_t first, int64_t count,
            const KeyRanges* ranges);

  int64_t first_tile() const { return any_.begin / kKeyTile; }
  int64_t last_tile() const { return (any_.end + kKeyTile - 1) / kKeyTile; }
  // bits[r] of every query; false when no query sees a key of the tile.
  bool bits(int64_t tile, uint64_t* bits) const;

private:
  const MaskView& mask_;
  const int64_t batch_, first_, count_;
  const KeyRanges* ranges_;
  KeyRange any_; // keys outside are seen by no query
  KeyRange all_; // keys inside are seen by every query; empty when single keys are tested
};

} // namespace dllm::cpu

#pragma once
// What attention and its gradient share: shapes, keys and values, masks at run time.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cpu {

// A mask (graph/mask.h) at run time: which keys a query sees, as ranges and as bits of one tile of
// 64 keys.

inline constexpr int64_t kKeyTile = 64; // counted from key 0: part of the order of sums

struct KeyRange {
  int64_t begin = 0, end = 0;
};

// Keys a query may see before the tests of single keys; the second range is empty but for
// two_stream.
struct KeyRanges {
  KeyRange part[2];
};

// The mask of an attention node, as its attributes describe it.
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
  int64_t queries() const { return plan_.queries_; }
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

// -infinity where the bit is 0; scores of one query, `step` apart.
void hide(uint64_t bits, int64_t width, int64_t step, float* scores);

// The mask of a block of queries, tile by tile: dead tiles are skipped, tiles that all rows see
// whole cost nothing.
class BlockMask {
public:
  // Queries [first, first + count) of row `batch`, the first one after the last; `ranges` are theirs and must outlive this.
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

// Shapes and attributes of an attention node, and its keys and values in panels.

struct AttentionShape {
  int64_t batch, queries, keys, heads, kv_heads, dim, vdim;
  float scale, softcap;
  bool empty_average;

  explicit AttentionShape(const CompileInfo& info);

  int64_t group() const { return heads / kv_heads; }
  int64_t tiles() const; // of 64 keys
  // Rows of q (batch, queries, heads, dim) and its like: offset of (b, query, head) and elements
  // between queries.
  int64_t q_at(int64_t b, int64_t query, int64_t head) const {
    return ((b * queries + query) * heads + head) * dim;
  }
  int64_t out_at(int64_t b, int64_t query, int64_t head) const {
    return ((b * queries + query) * heads + head) * vdim;
  }
  int64_t k_at(int64_t b, int64_t kv_head) const { return (b * keys * kv_heads + kv_head) * dim; }
  int64_t v_at(int64_t b, int64_t kv_head) const { return (b * keys * kv_heads + kv_head) * vdim; }
  int64_t lse_at(int64_t b, int64_t head, int64_t query) const {
    return (b * heads + head) * queries + query;
  }

  // scores (rows, 64) = q rows . keys of the tile; panels: of (keys, dim).
  Gemm score_product(const float* q, int64_t q_stride, int64_t rows, const std::byte* key_panels,
                     int64_t dims, int64_t tile, float* scores) const;
};

// Keys and values as an attention kernel reads them: arrays (batch, keys, kv_heads, dim), or rows
// of a table that a `take` would gather (the cache of decoding), read where they are.

// The places of the rows of one operand; made with the kernel.
struct KeyPlan {
  bool gathered = false;
  DType dtype = DType::f32; // of the table; bf16 and i8 are widened
  int64_t rows = 0;         // of the table
  int64_t keys = 0;         // of one batch row
  int64_t kv_heads = 0, dim = 0;
  int32_t value = -1, indices = -1; // what to read instead of the node's input
  // i8: a row of the table is one head of a key, `indices` (batch, keys, kv_heads) and scales f32(rows) are of those.
  int32_t scales = -1;

  // operand: number of the node's input, f32(batch, keys, kv_heads, dim).
  KeyPlan(const CompileInfo& info, size_t operand);
};

// The operand of one run.
struct KeyRows {
  const KeyPlan& plan;
  const std::byte* table;
  const int32_t* indices; // (batch, keys), or null
  const float* scales;    // of i8

  int64_t row_of(int64_t batch, int64_t key) const { return row_at(batch * plan.keys + key); }
  // One key's numbers of one head; `buffer` (dim) is used when they must be widened.
  const float* row(int64_t batch, int64_t key, int64_t head, float* buffer) const;
  // Where the same numbers lie in the table, and how many bytes they are.
  const std::byte* place(int64_t batch, int64_t key, int64_t head) const {
    return table + head_row(batch, key, head) * row_bytes();
  }
  int64_t row_bytes() const { return dtype_size(plan.dtype) * plan.dim; }
  // Keys [first, first + count) of one head as f32(count, dim): in place when they lie `stride`
  // apart, else in `buffer`.
  const float* tile(int64_t batch, int64_t first, int64_t count, int64_t head, float* buffer,
                    int64_t* stride) const;

private:
  int64_t row_at(int64_t at) const {
    return indices == nullptr ? at : std::clamp<int64_t>(indices[at], 0, plan.rows - 1);
  }
  // The row of the table, of plan.dim numbers, that holds one head of a key.
  int64_t head_row(int64_t batch, int64_t key, int64_t head) const {
    if (plan.dtype == DType::i8) return row_at((batch * plan.keys + key) * plan.kv_heads + head);
    return row_of(batch, key) * plan.kv_heads + head;
  }
};

} // namespace dllm::cpu

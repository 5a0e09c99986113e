#pragma once
// The common part of attention and its gradient: shapes, keys and values, and masks at run time.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cpu {

// A mask (graph/mask.h) decides which keys a query sees. At run time it returns ranges of keys, and
// bits for one tile of 64 keys.

// Tiles begin at multiples of 64 keys. The order of sums depends on this number.
inline constexpr int64_t kKeyTile = 64;

struct KeyRange {
  int64_t begin = 0, end = 0;
};

// The keys that a query may see, before single keys are tested. The second range is empty except
// for two_stream.
struct KeyRanges {
  KeyRange part[2];
};

// The mask of an attention node, which its attributes kinds and has_query_start describe.
class MaskPlan {
public:
  // `first_input` is the index of the first mask parameter.
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
    size_t input; // index of its first parameter
  };
  std::vector<Term> terms_;
  int query_start_ = -1;
  int64_t queries_, keys_;
  bool tests_single_keys_ = false; // segments, key_keep or dense is among the terms
};

// The mask of one run. It reads the operands in place and is cheap to make.
class MaskView {
public:
  MaskView(const MaskPlan& plan, const KernelCall& call) : plan_(plan), call_(call) {}

  KeyRanges ranges(int64_t batch, int64_t query) const;
  int64_t keys() const { return plan_.keys_; }
  int64_t queries() const { return plan_.queries_; }
  bool tests_single_keys() const { return plan_.tests_single_keys_; }
  // Returns the bits of a tile. Bit i is set if the query sees key tile_begin + i. `ranges` must be
  // ranges() of the query.
  uint64_t bits(const KeyRanges& ranges, int64_t batch, int64_t query, int64_t tile_begin) const;

private:
  int64_t scalar(size_t input) const { return *call_.inputs[input].in<int32_t>(); }

  const MaskPlan& plan_;
  const KernelCall& call_;
};

inline uint64_t all_bits(int64_t width) {
  return width >= kKeyTile ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

// Sets scores of one query to -infinity where the bit is 0. The scores are `step` numbers apart.
void hide(uint64_t bits, int64_t width, int64_t step, float* scores);

// The mask of a block of queries, tile by tile. Tiles that no query sees are skipped. Tiles that
// all queries see completely need no tests of single keys.
class BlockMask {
public:
  // The block has the queries first .. first + count - 1 modulo the number of queries, of row
  // `batch`. `ranges` (count) are the ranges of these queries and must outlive the mask.
  BlockMask(const MaskView& mask, int64_t batch, int64_t first, int64_t count,
            const KeyRanges* ranges);

  int64_t first_tile() const { return any_.begin / kKeyTile; }
  int64_t last_tile() const { return (any_.end + kKeyTile - 1) / kKeyTile; }
  // Writes bits[r] for every query of the block. Returns false when no query sees a key of the
  // tile.
  bool bits(int64_t tile, uint64_t* bits) const;

private:
  const MaskView& mask_;
  const int64_t batch_, first_, count_;
  const KeyRanges* ranges_;
  KeyRange any_; // no query sees a key outside of this range
  KeyRange all_; // every query sees all keys of this range; empty when single keys are tested
};

// Shapes and attributes of an attention node.

struct AttentionShape {
  int64_t batch, queries, keys, heads, kv_heads, dim, vdim;
  float scale, softcap;
  bool empty_average;

  explicit AttentionShape(const CompileInfo& info);

  int64_t group() const { return heads / kv_heads; }
  int64_t tiles() const; // of 64 keys
  // Return the offset of a row, in elements, in arrays like q (batch, queries, heads, dim), out
  // (batch, queries, heads, vdim), k (batch, keys, kv_heads, dim), v (batch, keys, kv_heads, vdim)
  // and lse (batch, heads, queries).
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

  // Returns the product that writes scores (rows, 64) of rows of q with the keys of a tile.
  // `key_panels` are the panels of (keys, dims).
  Gemm score_product(const float* q, int64_t q_stride, int64_t rows, const std::byte* key_panels,
                     int64_t dims, int64_t tile, float* scores) const;
};

// The source of keys or values, decided when the kernel is made. It is an array (batch, keys,
// kv_heads, dim). If a `take` makes this array, as with the KV cache, the kernel reads rows of the
// table in place.
struct KeyPlan {
  bool gathered = false;    // the rows are in a table
  DType dtype = DType::f32; // of the table; bf16 and i8 are widened
  int64_t rows = 0;         // of the table
  int64_t keys = 0;         // of one batch row
  int64_t kv_heads = 0, dim = 0;
  int32_t value = -1, indices = -1; // values to read in place of the node's input
  // The value of scales f32(rows) of an i8 table. A row of such a table is one head of a key, and
  // indices are (batch, keys, kv_heads).
  int32_t scales = -1;

  // `operand` is the index of the node's input f32(batch, keys, kv_heads, dim).
  KeyPlan(const CompileInfo& info, size_t operand);
};

// Keys or values of one run.
struct KeyRows {
  const KeyPlan& plan;
  const std::byte* table;
  const int32_t* indices; // (batch, keys), or (batch, keys, kv_heads) with i8; null: not gathered
  const float* scales;    // null: not i8

  int64_t row_of(int64_t batch, int64_t key) const { return row_at(batch * plan.keys + key); }
  // Returns the numbers (dim) of one head of a key. They are in `buffer` (dim) if they must be
  // widened.
  const float* row(int64_t batch, int64_t key, int64_t head, float* buffer) const;
  // Returns the place in the table of the numbers of row(), which have row_bytes().
  const std::byte* place(int64_t batch, int64_t key, int64_t head) const {
    return table + head_row(batch, key, head) * row_bytes();
  }
  int64_t row_bytes() const { return dtype_size(plan.dtype) * plan.dim; }
  // Returns the keys [first, first + count) of one head as f32(count, dim), with rows *stride
  // numbers apart. They are read in place if they are contiguous f32 rows, else copied to `buffer`.
  const float* tile(int64_t batch, int64_t first, int64_t count, int64_t head, float* buffer,
                    int64_t* stride) const;

private:
  int64_t row_at(int64_t at) const {
    return indices == nullptr ? at : std::clamp<int64_t>(indices[at], 0, plan.rows - 1);
  }
  // Returns the row of plan.dim numbers in the table that has one head of a key.
  int64_t head_row(int64_t batch, int64_t key, int64_t head) const {
    if (plan.dtype == DType::i8) return row_at((batch * plan.keys + key) * plan.kv_heads + head);
    return row_of(batch, key) * plan.kv_heads + head;
  }
};

} // namespace dllm::cpu

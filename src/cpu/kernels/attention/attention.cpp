#include "cpu/kernels/attention/attention.h"
#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace dllm::cpu {
namespace {

constexpr int64_t kColumns = 32;      // queries that are computed together
constexpr int64_t kBlocksPerTask = 8; // most blocks that share one packed tile of values
constexpr float kMasked = -std::numeric_limits<float>::infinity();

// A tile of keys and values of one (batch, kv head).
struct Tile {
  const float* keys = nullptr; // (width, dim), rows `stride` apart
  int64_t stride = 0, width = 0;
  const std::byte* values = nullptr; // panels of (vdim, width), with chains over keys
};

// The work space of a task. `keys` and `plain` hold rows that are not contiguous f32 rows in
// memory.
struct TaskSpace {
  std::byte* values; // panels of (vdim, 64)
  float* keys;       // (64, dim)
  float* plain;      // values (64, vdim)
  float* scores;     // (64, 32)
  std::byte* blocks; // for each block: queries in panels of (32, dim), then sums (32, vdim)
};

// The keys and values of the next tile, which are prefetched while a tile is computed. Rows of a KV
// cache are pages apart, and the hardware prefetcher of a chip does not follow them.
class TileAhead {
public:
  // `shares` is the number of calls of next().
  TileAhead(const KeyRows& k, const KeyRows& v, int64_t b, int64_t head, int64_t first,
            int64_t last, int64_t shares)
      : k_(k), v_(v), b_(b), head_(head), next_(first), last_(last),
        share_((last - first + shares - 1) / std::max<int64_t>(1, shares)) {}

  // Returns the next share of the rows, valid until the next call.
  RowsAhead next() {
    RowsAhead ahead{rows_, 0, std::max(k_.row_bytes(), v_.row_bytes())};
    for (const int64_t end = std::min(last_, next_ + share_); next_ < end; ++next_) {
      rows_[ahead.count++] = k_.place(b_, next_, head_);
      rows_[ahead.count++] = v_.place(b_, next_, head_);
    }
    return ahead;
  }

private:
  const KeyRows &k_, &v_;
  const int64_t b_, head_;
  int64_t next_;
  const int64_t last_, share_;
  const std::byte* rows_[2 * kKeyTile];
};

// A block of up to 32 queries of the heads that share a kv head, head after head. It uses an online
// softmax (Milakov & Gimelshein 2018) over tiles of keys (Dao et al. 2022). Scores are stored key
// by key, so keys are read in place and only the queries are packed, once. A masked score gives
// exactly 0, and a tile that a query does not see leaves its maximum, sum and result unchanged. So
// the bits of a query do not depend on its block.
class QueryBlock {
public:
  // `space` is the work space of this block. `plain` (32, dim) is used only by the constructor.
  QueryBlock(const AttentionShape& shape, const MaskView& mask, const KernelCall& call, int64_t b,
             int64_t kv_head, int64_t first, std::byte* space, float* plain)
      : s_(shape), call_(call), b_(b), kv_head_(kv_head), first_(first),
        count_(std::min(kColumns, shape.group() * shape.queries - first)), math_(rows()),
        panels_(space),
        sums_(reinterpret_cast<float*>(space + packed_bytes(kColumns, shape.dim, DType::f32))),
        mask_(mask, b, first, count_, find_ranges(mask)) {
    const float* q = call_.inputs[0].in<float>();
    for (int64_t c = 0; c < count_; ++c)
      std::copy_n(q + s_.q_at(b_, query(c), head(c)), s_.dim, plain + c * s_.dim);
    pack(DType::f32, plain, s_.dim, count_, s_.dim, panels_, nullptr);
    std::fill_n(sums_, count_ * s_.vdim, 0.0f);
    std::fill_n(maximum_, kColumns, kMasked);
    std::fill_n(sum_, kColumns, 0.0f);
    std::fill_n(seen_, kColumns, false);
  }
  QueryBlock(const QueryBlock&) = delete;
  QueryBlock& operator=(const QueryBlock&) = delete;

  int64_t first_tile() const { return mask_.first_tile(); }
  int64_t last_tile() const { return mask_.last_tile(); }
  // Returns true when a query of the block sees a key of the tile. add_tile must be called next.
  bool sees(int64_t tile) {
    return tile >= first_tile() && tile < last_tile() && mask_.bits(tile, bits_);
  }

  void add_tile(const Tile& tile, float* scores, TileAhead& ahead) {
    math_.chains({.a = tile.keys,
                  .a_stride = tile.stride,
                  .a_step = 1,
                  .b = reinterpret_cast<const float*>(panels_),
                  .c = scores,
                  .c_stride = kColumns,
                  .rows = tile.width,
                  .columns = columns(),
                  .k = s_.dim,
                  .load = false,
                  .ahead = ahead.next()});
    weigh(tile.width, scores);
    if (s_.vdim % kPanel == 0) { // sums += p v
      math_.chains({.a = scores,
                    .a_stride = 1,
                    .a_step = kColumns,
                    .b = reinterpret_cast<const float*>(tile.values),
                    .c = sums_,
                    .c_stride = s_.vdim,
                    .rows = count_,
                    .columns = s_.vdim,
                    .k = tile.width,
                    .load = true,
                    .ahead = ahead.next()});
      return;
    }
    Gemm gemm;
    gemm.a = scores;
    gemm.a_stride = 1;
    gemm.a_step = kColumns;
    gemm.b = tile.values;
    gemm.c = sums_;
    gemm.c_stride = s_.vdim;
    gemm.m = count_;
    gemm.n = s_.vdim;
    gemm.k = tile.width;
    gemm.accumulate = true;
    gemm_serial(gemm);
  }

  void finish(const KeyRows& v, float* buffer) const {
    for (int64_t c = 0; c < count_; ++c) {
      float* sums = sums_ + c * s_.vdim;
      float lse = kMasked;
      if (sum_[c] > 0.0f) { // false for NaN
        lse = maximum_[c] + exact_log(sum_[c]);
        math_.scale(1.0f / sum_[c], s_.vdim, sums);
      } else if (seen_[c] || std::isnan(sum_[c])) { // scores are NaN, or all are -infinity
        lse = std::numeric_limits<float>::quiet_NaN();
        std::fill_n(sums, s_.vdim, lse);
      } else if (s_.empty_average) {
        average_values(sums, v, buffer);
      }
      call_.outputs[1].out<float>()[s_.lse_at(b_, head(c), query(c))] = lse;
      std::copy_n(sums, s_.vdim, call_.outputs[0].out<float>() + s_.out_at(b_, query(c), head(c)));
    }
  }

private:
  int64_t head(int64_t c) const { return kv_head_ * s_.group() + (first_ + c) / s_.queries; }
  int64_t query(int64_t c) const { return (first_ + c) % s_.queries; }
  // Returns the columns in whole panels. Columns from count_ on are not used.
  int64_t columns() const { return panel_count(count_) * kPanel; }

  const KeyRanges* find_ranges(const MaskView& mask) {
    for (int64_t c = 0; c < count_; ++c) ranges_[c] = mask.ranges(b_, query(c));
    return ranges_;
  }

  // Replaces the scores of a tile by weights relative to the running maximum of each query.
  void weigh(int64_t width, float* scores) {
    // Without a cap the exponential applies the scale. A positive scale keeps the order of scores.
    const bool late = s_.softcap <= 0.0f && s_.scale > 0.0f;
    const float factor = late ? s_.scale : 1.0f;
    for (int64_t key = 0; key < width && !late; ++key)
      math_.scores(s_.scale, s_.softcap, columns(), scores + key * kColumns);
    for (int64_t c = 0; c < count_; ++c) {
      if (bits_[c] != all_bits(width)) hide(bits_[c], width, kColumns, scores + c);
    }
    float highest[kColumns], shift[kColumns] = {};
    math_.column_max(scores, width, kColumns, columns(), highest);
    for (int64_t c = 0; c < count_; ++c) {
      seen_[c] = seen_[c] || bits_[c] != 0;
      raise(c, highest[c] * factor);
      // If every seen score is -infinity or NaN, the weights are 0 or the sum is NaN.
      shift[c] = maximum_[c] == kMasked ? -kMasked : maximum_[c];
    }
    math_.column_exp(scores, factor, shift, width, kColumns, columns(), sum_);
  }

  void raise(int64_t c, float highest) {
    if (!(highest > maximum_[c])) return;
    if (sum_[c] > 0.0f) {
      const float shrink = exact_exp(maximum_[c] - highest);
      sum_[c] *= shrink;
      math_.scale(shrink, s_.vdim, sums_ + c * s_.vdim);
    }
    maximum_[c] = highest;
  }

  // Writes the mean of the values of all keys, added in order.
  void average_values(float* sums, const KeyRows& v, float* buffer) const {
    call_.pool.check();
    for (int64_t key = 0; key < s_.keys; ++key)
      math_.add_to(v.row(b_, key, kv_head_, buffer), s_.vdim, sums);
    math_.scale(1.0f / static_cast<float>(s_.keys), s_.vdim, sums);
  }

  const AttentionShape& s_;
  const KernelCall& call_;
  const int64_t b_, kv_head_, first_, count_;
  const Rows& math_;
  std::byte* const panels_;
  float* const sums_;
  KeyRanges ranges_[kColumns];
  const BlockMask mask_;
  uint64_t bits_[kColumns];
  float maximum_[kColumns], sum_[kColumns];
  bool seen_[kColumns]; // the mask allows at least one key so far
};

int64_t block_bytes(const AttentionShape& s) {
  return packed_bytes(kColumns, s.dim, DType::f32) +
         kColumns * s.vdim * static_cast<int64_t>(sizeof(float));
}

// Computes the blocks [first, last) of one (batch, kv head). Every tile is read and packed once for
// all blocks and stays in the near caches.
void run_task(const AttentionShape& s, const MaskView& mask, const KernelCall& call,
              const KeyRows& k, const KeyRows& v, int64_t b, int64_t kv_head, int64_t first,
              int64_t last, const TaskSpace& space) {
  std::deque<QueryBlock> blocks;
  int64_t begin = INT64_MAX, end = 0;
  for (int64_t block = first; block < last; ++block) {
    const QueryBlock& made =
        blocks.emplace_back(s, mask, call, b, kv_head, block * kColumns,
                            space.blocks + (block - first) * block_bytes(s), space.keys);
    if (made.first_tile() >= made.last_tile()) continue;
    begin = std::min(begin, made.first_tile());
    end = std::max(end, made.last_tile());
  }
  for (int64_t number = begin; number < end; ++number) {
    call.pool.check(); // a tile takes about 1 ms for all blocks
    const int64_t at = number * kKeyTile, next = std::min(at + kKeyTile, s.keys);
    Tile tile;
    TileAhead ahead(k, v, b, kv_head, next,
                    number + 1 < end && k.plan.gathered ? std::min(next + kKeyTile, s.keys) : next,
                    (s.vdim % kPanel == 0 ? 2 : 1) * (last - first)); // calls in add_tile()
    for (QueryBlock& block : blocks) {
      if (!block.sees(number)) continue;
      if (tile.keys == nullptr) {
        tile.width = next - at;
        tile.keys = k.tile(b, at, tile.width, kv_head, space.keys, &tile.stride);
        int64_t stride = 0;
        const float* values = v.tile(b, at, tile.width, kv_head, space.plain, &stride);
        pack_transposed(DType::f32, values, stride, s.vdim, tile.width, space.values, nullptr);
        tile.values = space.values;
      }
      block.add_tile(tile, space.scores, ahead);
    }
  }
  for (const QueryBlock& block : blocks) block.finish(v, space.plain);
}

// q, k, v, mask params -> out, lse. If a `take` gathers k or v, the table is read in place.
Kernel make_attention(const CompileInfo& info) {
  const AttentionShape s(info);
  const MaskPlan plan(info, 3);
  const KeyPlan k_plan(info, 1), v_plan(info, 2);
  const int64_t blocks = (s.group() * s.queries + kColumns - 1) / kColumns;
  const int64_t fair = s.batch * s.kv_heads * blocks / std::max(1, info.threads);
  const int64_t per_task = std::clamp<int64_t>(fair, 1, kBlocksPerTask);
  const int64_t parts = (blocks + per_task - 1) / per_task;
  const int64_t tasks = s.batch * s.kv_heads * parts;
  const int64_t slots = std::min<int64_t>(tasks, 4 * info.threads);
  ScratchLayout layout; // of one slot
  const int64_t values = layout.add(packed_bytes(s.vdim, kKeyTile, DType::f32));
  const int64_t keys = layout.add_floats(kKeyTile * s.dim);
  const int64_t plain = layout.add_floats(kKeyTile * s.vdim);
  const int64_t scores = layout.add_floats(kKeyTile * kColumns);
  const int64_t own_blocks = layout.add(std::min(per_task, blocks) * block_bytes(s));
  const int64_t slot_bytes = layout.bytes();

  Kernel kernel;
  kernel.scratch_bytes = slots * slot_bytes;
  kernel.reads = info.node.inputs;
  kernel.reads[1] = k_plan.value;
  kernel.reads[2] = v_plan.value;
  const auto add_read = [&](bool wanted, int32_t value) {
    if (wanted) kernel.reads.push_back(value);
    return kernel.reads.size() - 1;
  };
  const size_t k_indices = add_read(k_plan.gathered, k_plan.indices),
               v_indices = add_read(v_plan.gathered, v_plan.indices),
               k_scales = add_read(k_plan.scales >= 0, k_plan.scales),
               v_scales = add_read(v_plan.scales >= 0, v_plan.scales);
  kernel.run = [=](const KernelCall& call) {
    const auto rows_of = [&](const KeyPlan& of, size_t operand, size_t indices, size_t scales) {
      return KeyRows{of, call.inputs[operand].data,
                     of.gathered ? call.inputs[indices].in<int32_t>() : nullptr,
                     of.scales >= 0 ? call.inputs[scales].in<float>() : nullptr};
    };
    const KeyRows k = rows_of(k_plan, 1, k_indices, k_scales),
                  v = rows_of(v_plan, 2, v_indices, v_scales);
    const MaskView mask(plan, call);
    const int64_t work = s.queries * s.keys * (s.dim + s.vdim) / 16; // of one head
    const Workers used = work * s.batch * s.heads < 60000 ? call.pool.serial() : call.pool;
    parallel(used, slots, [&](int64_t slot) {
      std::byte* own = call.scratch + slot * slot_bytes;
      const auto floats = [own](int64_t at) { return reinterpret_cast<float*>(own + at); };
      const TaskSpace space{own + values, floats(keys), floats(plain), floats(scores),
                            own + own_blocks};
      for (int64_t task = slot; task < tasks; task += slots) {
        const int64_t part = task % parts, kv = task / parts;
        run_task(s, mask, call, k, v, kv / s.kv_heads, kv % s.kv_heads, part * per_task,
                 std::min(blocks, (part + 1) * per_task), space);
      }
    });
  };
  return kernel;
}

constexpr KernelEntry kAttentionKernels[] = {
    {"attention", make_attention},
};

} // namespace

KernelList attention_kernels() {
  return kAttentionKernels;
}

} // namespace dllm::cpu

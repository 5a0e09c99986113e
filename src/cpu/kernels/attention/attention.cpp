#include "cpu/kernels/attention/attention.h"
#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace dllm::cpu {
namespace {

constexpr int64_t kQueryBlock = 32;
constexpr int64_t kBlocksPerTask =
    8; // share one packed tile of keys; also times the heads of a group
constexpr float kMasked = -std::numeric_limits<float>::infinity();

// A tile of keys and values of one (batch, kv head) in panels, packed when the first block sees it.
struct KeyTile {
  std::byte* keys;   // of (64, dim)
  std::byte* values; // of (vdim, 64): chains over keys
  float* plain;      // (64, max(dim, vdim)), for rows that are not evenly spaced
};

void pack_tile(const AttentionShape& s, const KeyRows& k, const KeyRows& v, int64_t b, int64_t head,
               int64_t tile, const KeyTile& to) {
  const int64_t first = tile * kKeyTile, width = std::min(kKeyTile, s.keys - first);
  int64_t stride = 0;
  const float* keys = k.tile(b, first, width, head, to.plain, &stride);
  pack(DType::f32, keys, stride, width, s.dim, to.keys, nullptr);
  const float* values = v.tile(b, first, width, head, to.plain, &stride);
  pack_transposed(DType::f32, values, stride, s.vdim, width, to.values, nullptr);
}

// One block of queries of one head: Milakov & Gimelshein 2018 (online softmax), Dao et al. 2022
// (tiles). A masked score gives exactly 0 and a dead tile leaves maximum, sum and result as they
// are, so a row does not depend on its block.
class QueryBlock {
public:
  QueryBlock(const AttentionShape& shape, const MaskView& mask, const KernelCall& call, int64_t b,
             int64_t head, int64_t first)
      : s_(shape), call_(call), b_(b), head_(head), first_(first),
        rows_(std::min(kQueryBlock, shape.queries - first)), math_(rows()),
        mask_(mask, b, first, rows_, find_ranges(mask)) {
    for (int64_t r = 0; r < rows_; ++r) {
      maximum_[r] = kMasked;
      sum_[r] = 0.0f;
      lost_[r] = false;
      std::fill_n(out(r), s_.vdim, 0.0f);
    }
  }
  QueryBlock(const QueryBlock&) = delete;
  QueryBlock& operator=(const QueryBlock&) = delete;

  int64_t first_tile() const { return mask_.first_tile(); }
  int64_t last_tile() const { return mask_.last_tile(); }
  // True when a query of the block sees a key of the tile; add_tile must follow.
  bool sees(int64_t tile) {
    return tile >= first_tile() && tile < last_tile() && mask_.bits(tile, bits_);
  }

  // scores_: work space (32, 64)
  void add_tile(const KeyTile& packed, int64_t tile, float* scores) {
    const int64_t width = std::min(kKeyTile, s_.keys - tile * kKeyTile);
    const float* q = call_.inputs[0].in<float>() + s_.q_at(b_, first_, head_);
    Gemm product;
    product.a = q;
    product.a_stride = s_.heads * s_.dim;
    product.b = packed.keys;
    product.c = scores;
    product.c_stride = kKeyTile;
    product.m = rows_;
    product.n = panel_count(width) * kPanel; // columns beyond the last key are masked
    product.k = s_.dim;
    gemm_serial(product);
    for (int64_t r = 0; r < rows_; ++r) add_scores(r, width, scores + r * kKeyTile);
    Gemm gemm; // out += p v
    gemm.a = scores;
    gemm.a_stride = kKeyTile;
    gemm.b = packed.values;
    gemm.c = out(0);
    gemm.c_stride = s_.heads * s_.vdim;
    gemm.m = rows_;
    gemm.n = s_.vdim;
    gemm.k = width;
    gemm.accumulate = true;
    gemm_serial(gemm);
  }

  void finish(const KeyRows& v, float* buffer) const {
    float* lse = call_.outputs[1].out<float>() + s_.lse_at(b_, head_, first_);
    for (int64_t r = 0; r < rows_; ++r) {
      if (sum_[r] > 0.0f) { // false for NaN
        lse[r] = maximum_[r] + exact_log(sum_[r]);
        math_.scale(1.0f / sum_[r], s_.vdim, out(r));
      } else if (lost_[r] || std::isnan(sum_[r])) {
        lse[r] = std::numeric_limits<float>::quiet_NaN();
        std::fill_n(out(r), s_.vdim, lse[r]);
      } else {
        lse[r] = kMasked;
        if (s_.empty_average) average_values(r, v, buffer);
      }
    }
  }

private:
  const KeyRanges* find_ranges(const MaskView& mask) {
    for (int64_t r = 0; r < rows_; ++r) ranges_[r] = mask.ranges(b_, first_ + r);
    return ranges_;
  }
  float* out(int64_t r) const {
    return call_.outputs[0].out<float>() + s_.out_at(b_, first_ + r, head_);
  }

  // Scores of one row of the tile -> weights relative to the running maximum.
  void add_scores(int64_t r, int64_t width, float* score) {
    const uint64_t bits = bits_[r];
    if (bits == 0) {
      std::fill_n(score, width, 0.0f);
      return;
    }
    // Without a cap the scale waits for the exponential; a product with it keeps the order (scale >
    // 0).
    const bool late = s_.softcap <= 0.0f && s_.scale > 0.0f;
    const float factor = late ? s_.scale : 1.0f;
    if (!late) math_.scores(s_.scale, s_.softcap, width, score);
    if (bits != all_bits(width)) hide(bits, width, score);
    const float highest = math_.max(score, width) * factor;
    if (highest > maximum_[r]) {
      if (sum_[r] > 0.0f) {
        const float shrink = exact_exp(maximum_[r] - highest);
        sum_[r] *= shrink;
        math_.scale(shrink, s_.vdim, out(r));
      }
      maximum_[r] = highest;
    }
    if (maximum_[r] == kMasked) { // every seen score is -infinity, or NaN
      const bool number = std::none_of(score, score + width, [](float x) { return std::isnan(x); });
      if (!number) sum_[r] = std::numeric_limits<float>::quiet_NaN(); // and stays it
      std::fill_n(score, width, 0.0f);
      lost_[r] = true; // unless a later tile has a number
      return;
    }
    sum_[r] += math_.exp_sum(score, factor, maximum_[r], width, score);
  }

  // The plain mean of the values of all keys, in order.
  void average_values(int64_t r, const KeyRows& v, float* buffer) const {
    call_.pool.check();
    for (int64_t key = 0; key < s_.keys; ++key)
      math_.add_to(v.row(b_, key, head_ / s_.group(), buffer), s_.vdim, out(r));
    math_.scale(1.0f / static_cast<float>(s_.keys), s_.vdim, out(r));
  }

  const AttentionShape& s_;
  const KernelCall& call_;
  const int64_t b_, head_, first_, rows_;
  const Rows& math_;
  KeyRanges ranges_[kQueryBlock];
  const BlockMask mask_;
  uint64_t bits_[kQueryBlock];
  float maximum_[kQueryBlock];
  float sum_[kQueryBlock];
  bool lost_[kQueryBlock]; // saw keys, and no score that is a number
};

// All blocks of one (batch, kv head) among [first, last) of the query blocks, heads of its group
// included: every tile is packed once for all of them and stays in the nearest cache.
void run_task(const AttentionShape& s, const MaskView& mask, const KernelCall& call,
              const KeyRows& k, const KeyRows& v, int64_t b, int64_t kv_head, int64_t first,
              int64_t last, const KeyTile& tile_space, float* scores) {
  std::deque<QueryBlock> blocks;
  int64_t begin = INT64_MAX, end = 0;
  for (int64_t head = kv_head * s.group(); head < (kv_head + 1) * s.group(); ++head) {
    for (int64_t block = first; block < last; ++block) {
      const QueryBlock& made = blocks.emplace_back(s, mask, call, b, head, block * kQueryBlock);
      if (made.first_tile() >= made.last_tile()) continue;
      begin = std::min(begin, made.first_tile());
      end = std::max(end, made.last_tile());
    }
  }
  for (int64_t tile = begin; tile < end; ++tile) {
    call.pool.check(); // a tile of all these blocks: about 1 ms
    bool packed = false;
    for (QueryBlock& block : blocks) {
      if (!block.sees(tile)) continue;
      if (!packed) pack_tile(s, k, v, b, kv_head, tile, tile_space);
      packed = true;
      block.add_tile(tile_space, tile, scores);
    }
  }
  for (const QueryBlock& block : blocks) block.finish(v, tile_space.plain);
}

// q, k, v, mask params -> out, lse. A k or v that is gathered is read in its table.
Kernel make_attention(const CompileInfo& info) {
  const AttentionShape s(info);
  const MaskPlan plan(info, 3);
  const KeyPlan k_plan(info, 1), v_plan(info, 2);
  const int64_t blocks = (s.queries + kQueryBlock - 1) / kQueryBlock;
  const int64_t parts = (blocks + kBlocksPerTask - 1) / kBlocksPerTask;
  const int64_t tasks = s.batch * s.kv_heads * parts;
  const int64_t slots = std::min<int64_t>(tasks, 4 * info.threads);
  ScratchLayout layout; // of one slot
  const int64_t keys = layout.add(packed_bytes(kKeyTile, s.dim, DType::f32));
  const int64_t values = layout.add(packed_bytes(s.vdim, kKeyTile, DType::f32));
  const int64_t plain = layout.add_floats(kKeyTile * std::max(s.dim, s.vdim));
  const int64_t scores = layout.add_floats(kQueryBlock * kKeyTile);
  const int64_t slot_bytes = layout.bytes();

  Kernel kernel;
  kernel.scratch_bytes = slots * slot_bytes;
  kernel.reads = info.node.inputs;
  kernel.reads[1] = k_plan.value;
  kernel.reads[2] = v_plan.value;
  const size_t k_indices = kernel.reads.size();
  if (k_plan.gathered) kernel.reads.push_back(k_plan.indices);
  const size_t v_indices = kernel.reads.size();
  if (v_plan.gathered) kernel.reads.push_back(v_plan.indices);
  kernel.run = [=](const KernelCall& call) {
    const auto rows_of = [&](const KeyPlan& of, size_t operand, size_t indices) {
      return KeyRows{of, call.inputs[operand].data,
                     of.gathered ? call.inputs[indices].in<int32_t>() : nullptr};
    };
    const KeyRows k = rows_of(k_plan, 1, k_indices), v = rows_of(v_plan, 2, v_indices);
    const MaskView mask(plan, call);
    const int64_t work = s.queries * s.keys * (s.dim + s.vdim) / 16; // of one head
    const Workers used = work * s.batch * s.heads < 60000 ? call.pool.serial() : call.pool;
    parallel(used, slots, [&](int64_t slot) {
      std::byte* own = call.scratch + slot * slot_bytes;
      const KeyTile tile{own + keys, own + values, reinterpret_cast<float*>(own + plain)};
      for (int64_t task = slot; task < tasks; task += slots) {
        const int64_t part = task % parts, kv = task / parts;
        run_task(s, mask, call, k, v, kv / s.kv_heads, kv % s.kv_heads, part * kBlocksPerTask,
                 std::min(blocks, (part + 1) * kBlocksPerTask), tile,
                 reinterpret_cast<float*>(own + scores));
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

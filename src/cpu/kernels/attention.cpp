#include "cpu/kernels/attention_mask.h"
#include "cpu/kernels/attention_shape.h"
#include "cpu/kernels/factories.h"
#include "cpu/kernels/online_softmax.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/split.h"

#include <limits>

namespace dllm::cpu {
namespace {

constexpr int64_t kQueryBlock = 32;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Keys and values of every (batch, kv head) in panels.
struct PackedKeys {
  std::byte* keys;   // of (keys, dim)
  std::byte* values; // of (vdim, keys): chains over keys
  int64_t key_bytes, value_bytes;

  void pack_all(const AttentionShape& s, const KernelCall& call) const {
    const float* k = call.inputs[1].in<float>();
    const float* v = call.inputs[2].in<float>();
    split(call.pool, s.batch * s.kv_heads, grain_of(s.keys * (s.dim + s.vdim)),
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t b = i / s.kv_heads, head = i % s.kv_heads;
              pack(DType::f32, k + s.k_at(b, head), s.kv_heads * s.dim, s.keys, s.dim,
                   keys + i * key_bytes, nullptr);
              pack_transposed(DType::f32, v + s.v_at(b, head), s.kv_heads * s.vdim, s.vdim, s.keys,
                              values + i * value_bytes, nullptr);
            }
          });
  }
};

// One block of queries of one head: Milakov & Gimelshein 2018 (online softmax), Dao et al. 2022
// (tiles). A masked score gives exactly 0 and a dead tile leaves maximum, sum and result as they
// are, so a row does not depend on its block.
class QueryBlock {
public:
  QueryBlock(const AttentionShape& shape, const MaskView& mask, const KernelCall& call, int64_t b,
             int64_t head, int64_t first)
      : s_(shape), mask_(mask), call_(call), b_(b), head_(head), first_(first),
        rows_(std::min(kQueryBlock, shape.queries - first)), math_(rows()) {
    for (int64_t r = 0; r < rows_; ++r) {
      ranges_[r] = mask.ranges(b, first + r);
      maximum_[r] = kMasked;
      sum_[r] = 0.0f;
      std::fill_n(out(r), s_.vdim, 0.0f);
    }
  }

  void run(const PackedKeys& packed) {
    const int64_t kv = b_ * s_.kv_heads + head_ / s_.group();
    const std::byte* keys = packed.keys + kv * packed.key_bytes;
    const std::byte* values = packed.values + kv * packed.value_bytes;
    const BlockMask block_mask(mask_, b_, first_, rows_, ranges_);
    for (int64_t tile = block_mask.first_tile(); tile < block_mask.last_tile(); ++tile) {
      if (block_mask.bits(tile, bits_)) add_tile(keys, values, tile);
    }
    finish();
  }

private:
  float* out(int64_t r) const {
    return call_.outputs[0].out<float>() + s_.out_at(b_, first_ + r, head_);
  }

  void add_tile(const std::byte* keys, const std::byte* values, int64_t tile) {
    const int64_t width = std::min(kKeyTile, s_.keys - tile * kKeyTile);
    const float* q = call_.inputs[0].in<float>() + s_.q_at(b_, first_, head_);
    gemm_serial(s_.score_product(q, s_.heads * s_.dim, rows_, keys, s_.dim, tile, scores_));
    for (int64_t r = 0; r < rows_; ++r) add_scores(r, width);
    Gemm gemm; // out += p v
    gemm.a = scores_;
    gemm.a_stride = kKeyTile;
    gemm.b = values + tile * kKeyTile * kPanel * static_cast<int64_t>(sizeof(float));
    gemm.b_chain = s_.keys;
    gemm.c = out(0);
    gemm.c_stride = s_.heads * s_.vdim;
    gemm.m = rows_;
    gemm.n = s_.vdim;
    gemm.k = width;
    gemm.accumulate = true;
    gemm_serial(gemm);
  }

  // Scores of one row of the tile -> weights relative to the running maximum.
  void add_scores(int64_t r, int64_t width) {
    float* score = scores_ + r * kKeyTile;
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
    if (maximum_[r] == kMasked) { // every seen score is -infinity
      std::fill_n(score, width, 0.0f);
      return;
    }
    sum_[r] += math_.exp_sum(score, factor, maximum_[r], width, score);
  }

  void finish() const {
    float* lse = call_.outputs[1].out<float>() + s_.lse_at(b_, head_, first_);
    for (int64_t r = 0; r < rows_; ++r) {
      if (sum_[r] > 0.0f) {
        lse[r] = maximum_[r] + exact_log(sum_[r]);
        math_.scale(1.0f / sum_[r], s_.vdim, out(r));
      } else {
        lse[r] = kMasked;
        if (s_.empty_average) average_values(r);
      }
    }
  }

  // The plain mean of the values of all keys, in order.
  void average_values(int64_t r) const {
    const float* v = call_.inputs[2].in<float>() + s_.v_at(b_, head_ / s_.group());
    for (int64_t key = 0; key < s_.keys; ++key)
      math_.add_to(v + key * s_.kv_heads * s_.vdim, s_.vdim, out(r));
    math_.scale(1.0f / static_cast<float>(s_.keys), s_.vdim, out(r));
  }

  const AttentionShape& s_;
  const MaskView& mask_;
  const KernelCall& call_;
  const int64_t b_, head_, first_, rows_;
  const Rows& math_;
  KeyRanges ranges_[kQueryBlock];
  uint64_t bits_[kQueryBlock];
  float maximum_[kQueryBlock];
  float sum_[kQueryBlock];
  alignas(64) float scores_[kQueryBlock * kKeyTile]; // (row, key of the tile)
};

} // namespace

// q, k, v, mask params -> out, lse
Kernel make_attention(const CompileInfo& info) {
  const AttentionShape s(info);
  const MaskPlan plan(info, 3);
  const int64_t kv = s.batch * s.kv_heads;
  ScratchLayout layout;
  const int64_t key_bytes = packed_bytes(s.keys, s.dim, DType::f32);
  const int64_t value_bytes = packed_bytes(s.vdim, s.keys, DType::f32);
  const int64_t keys = layout.add(kv * key_bytes), values = layout.add(kv * value_bytes);
  const int64_t blocks = (s.queries + kQueryBlock - 1) / kQueryBlock;

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const PackedKeys packed{call.scratch + keys, call.scratch + values, key_bytes, value_bytes};
    packed.pack_all(s, call);
    const MaskView mask(plan, call);
    const int64_t work = s.queries * s.keys * (s.dim + s.vdim) / 16; // of one head
    const int64_t count = s.batch * s.heads * blocks;
    parallel(work * s.batch * s.heads < 60000 ? nullptr : call.pool, count, [&](int64_t i) {
      const int64_t head = i / blocks;
      QueryBlock(s, mask, call, head / s.heads, head % s.heads, i % blocks * kQueryBlock)
          .run(packed);
    });
  };
  return kernel;
}

} // namespace dllm::cpu

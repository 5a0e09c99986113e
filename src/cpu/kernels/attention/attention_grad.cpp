#include "cpu/kernel.h"
#include "cpu/kernels/attention/attention.h"
#include "cpu/kernels/rows/rows.h"

#include <cmath>
#include <limits>

namespace dllm::cpu {
namespace {

constexpr int64_t kBlock = 64; // queries of a block; blocks begin at multiples of 64
constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Offsets in the scratch memory of one (batch, kv head).
struct GradScratch {
  ScratchLayout layout;
  int64_t keys, keys_transposed, values; // panels of (keys, dim), (dim, keys), (keys, vdim)
  // Panels of (dim, block) and (vdim, block), with chains over queries.
  int64_t queries_transposed, douts_transposed;
  int64_t scores, dscores; // (block, 64)

  explicit GradScratch(const AttentionShape& s) {
    keys = layout.add(packed_bytes(s.keys, s.dim, DType::f32));
    keys_transposed = layout.add(packed_bytes(s.dim, s.keys, DType::f32));
    values = layout.add(packed_bytes(s.keys, s.vdim, DType::f32));
    queries_transposed = layout.add(packed_bytes(s.dim, kBlock, DType::f32));
    douts_transposed = layout.add(packed_bytes(s.vdim, kBlock, DType::f32));
    scores = layout.add_floats(kBlock * kKeyTile);
    dscores = layout.add_floats(kBlock * kKeyTile);
  }
};

// Computes the gradient of one kv head. It goes through its query heads, their queries and the key
// tiles in order, so every element of dq, dk and dv is one chain. Probabilities are computed again
// from lse (Dao et al. 2022, algorithm 4).
class HeadGrad {
public:
  HeadGrad(const AttentionShape& shape, const MaskView& mask, const KernelCall& call,
           const GradScratch& at, std::byte* scratch, int64_t b, int64_t kv_head)
      : s_(shape), mask_(mask), call_(call), at_(at), scratch_(scratch), b_(b), kv_(kv_head),
        math_(rows()) {}

  void run() {
    clear(call_.outputs[1].out<float>() + s_.k_at(b_, kv_), s_.kv_heads * s_.dim, s_.dim);
    clear(call_.outputs[2].out<float>() + s_.v_at(b_, kv_), s_.kv_heads * s_.vdim, s_.vdim);
    const float* k = in(1) + s_.k_at(b_, kv_);
    const float* v = in(2) + s_.v_at(b_, kv_);
    pack(DType::f32, k, s_.kv_heads * s_.dim, s_.keys, s_.dim, scratch_ + at_.keys,
         call_.pool.serial());
    pack_transposed(DType::f32, k, s_.kv_heads * s_.dim, s_.dim, s_.keys,
                    scratch_ + at_.keys_transposed, call_.pool.serial());
    pack(DType::f32, v, s_.kv_heads * s_.vdim, s_.keys, s_.vdim, scratch_ + at_.values,
         call_.pool.serial());
    for (int64_t head = kv_ * s_.group(); head < (kv_ + 1) * s_.group(); ++head) {
      for (int64_t first = 0; first < s_.queries; first += kBlock) block(head, first);
    }
  }

private:
  const float* in(size_t i) const { return call_.inputs[i].in<float>(); }
  float* part(int64_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }

  void clear(float* to, int64_t stride, int64_t n) const {
    for (int64_t key = 0; key < s_.keys; ++key) std::fill_n(to + key * stride, n, 0.0f);
  }

  void block(int64_t head, int64_t first) {
    head_ = head, first_ = first, count_ = std::min(kBlock, s_.queries - first);
    const float* q = in(0) + s_.q_at(b_, first, head);
    const float* dout = in(5) + s_.out_at(b_, first, head);
    const float* out = in(3) + s_.out_at(b_, first, head);
    pack_transposed(DType::f32, q, s_.heads * s_.dim, s_.dim, count_,
                    scratch_ + at_.queries_transposed, nullptr);
    pack_transposed(DType::f32, dout, s_.heads * s_.vdim, s_.vdim, count_,
                    scratch_ + at_.douts_transposed, nullptr);
    for (int64_t r = 0; r < count_; ++r) {
      std::fill_n(call_.outputs[0].out<float>() + s_.q_at(b_, first + r, head), s_.dim, 0.0f);
      ranges_[r] = mask_.ranges(b_, first + r);
      lse_[r] = in(4)[s_.lse_at(b_, head, first + r)];
      shift_[r] =
          math_.product_sum(out + r * s_.heads * s_.vdim, dout + r * s_.heads * s_.vdim, s_.vdim);
      if (lse_[r] == kMasked && s_.empty_average) average_grad(dout + r * s_.heads * s_.vdim);
    }
    const BlockMask block_mask(mask_, b_, first, count_, ranges_);
    for (int64_t tile = block_mask.first_tile(); tile < block_mask.last_tile(); ++tile) {
      call_.pool.check();
      if (block_mask.bits(tile, bits_)) add_tile(q, dout, tile);
    }
  }

  // Adds dout / keys to the gradient of every value. A query that sees no key averages all values.
  void average_grad(const float* dout) const {
    call_.pool.check();
    float* dv = call_.outputs[2].out<float>() + s_.v_at(b_, kv_);
    const float share = 1.0f / static_cast<float>(s_.keys);
    for (int64_t key = 0; key < s_.keys; ++key) {
      for (int64_t j = 0; j < s_.vdim; ++j) dv[key * s_.kv_heads * s_.vdim + j] += dout[j] * share;
    }
  }

  void add_tile(const float* q, const float* dout, int64_t tile) {
    const int64_t width = std::min(kKeyTile, s_.keys - tile * kKeyTile), key = tile * kKeyTile;
    float* p = part(at_.scores);
    float* ds = part(at_.dscores);
    gemm_serial(
        s_.score_product(q, s_.heads * s_.dim, count_, scratch_ + at_.keys, s_.dim, tile, p));
    gemm_serial(s_.score_product(dout, s_.heads * s_.vdim, count_, scratch_ + at_.values, s_.vdim,
                                 tile, ds));
    for (int64_t r = 0; r < count_; ++r) weights(r, width, p + r * kKeyTile, ds + r * kKeyTile);

    Gemm to_query; // dq += ds k
    to_query.a = ds;
    to_query.a_stride = kKeyTile;
    to_query.b =
        scratch_ + at_.keys_transposed + key * kPanel * static_cast<int64_t>(sizeof(float));
    to_query.b_chain = s_.keys;
    to_query.c = call_.outputs[0].out<float>() + s_.q_at(b_, first_, head_);
    to_query.c_stride = s_.heads * s_.dim;
    to_query.m = count_, to_query.n = s_.dim, to_query.k = width;
    to_query.accumulate = true;
    gemm_serial(to_query);
    add_transposed(ds, width, at_.queries_transposed, s_.dim,
                   call_.outputs[1].out<float>() + s_.k_at(b_, kv_), key);
    add_transposed(p, width, at_.douts_transposed, s_.vdim,
                   call_.outputs[2].out<float>() + s_.v_at(b_, kv_), key);
  }

  // Computes p = exp(score - lse) and ds = p (dp - sum dout out) scale in place. Both are exactly 0
  // where masked.
  void weights(int64_t r, int64_t width, float* p, float* ds) const {
    if (bits_[r] == 0 || lse_[r] == kMasked) {
      std::fill_n(p, width, 0.0f);
      std::fill_n(ds, width, 0.0f);
      return;
    }
    math_.scores(s_.scale, s_.softcap, width, p);
    if (bits_[r] != all_bits(width)) hide(bits_[r], width, 1, p);
    math_.score_grads(lse_[r], shift_[r], s_.scale, s_.softcap, width, p, ds);
  }

  // Adds a^T b to the rows [key, key + width) of `to` (keys, n). a is (count, 64), and b are the
  // panels of the block at offset `panels`.
  void add_transposed(const float* a, int64_t width, int64_t panels, int64_t n, float* to,
                      int64_t key) const {
    Gemm gemm;
    gemm.a = a;
    gemm.a_stride = 1;
    gemm.a_step = kKeyTile;
    gemm.b = scratch_ + panels;
    gemm.c = to + key * s_.kv_heads * n;
    gemm.c_stride = s_.kv_heads * n;
    gemm.m = width, gemm.n = n, gemm.k = count_;
    gemm.accumulate = true;
    gemm_serial(gemm);
  }

  const AttentionShape& s_;
  const MaskView& mask_;
  const KernelCall& call_;
  const GradScratch& at_;
  std::byte* const scratch_;
  const int64_t b_, kv_;
  const Rows& math_;
  int64_t head_ = 0, first_ = 0, count_ = 0;
  KeyRanges ranges_[kBlock];
  uint64_t bits_[kBlock];
  float lse_[kBlock];
  float shift_[kBlock]; // sum of dout * out
};

// q, k, v, out, lse, dout, mask params -> dq, dk, dv
Kernel make_attention_grad(const CompileInfo& info) {
  const AttentionShape s(info);
  const MaskPlan plan(info, 6);
  const GradScratch at(s);
  const int64_t count = s.batch * s.kv_heads;
  const int64_t slots = std::min<int64_t>(count, 2 * info.threads);

  Kernel kernel;
  kernel.scratch_bytes = slots * at.layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const MaskView mask(plan, call);
    parallel(call.pool, slots, [&](int64_t slot) {
      for (int64_t i = slot; i < count; i += slots) {
        HeadGrad(s, mask, call, at, call.scratch + slot * at.layout.bytes(), i / s.kv_heads,
                 i % s.kv_heads)
            .run();
      }
    });
  };
  return kernel;
}

constexpr KernelEntry kAttentionGradKernels[] = {
    {"attention_grad", make_attention_grad},
};

} // namespace

KernelList attention_grad_kernels() {
  return kAttentionGradKernels;
}

} // namespace dllm::cpu

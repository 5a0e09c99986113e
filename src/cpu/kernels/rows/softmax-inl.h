// Functions over pieces of a row for the softmax of attention, cross entropy and token statistics.
// The header is included once per target.

#if defined(DLLM_CPU_KERNELS_ROWS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_ROWS_SOFTMAX_INL_H_
#undef DLLM_CPU_KERNELS_ROWS_SOFTMAX_INL_H_
#else
#define DLLM_CPU_KERNELS_ROWS_SOFTMAX_INL_H_
#endif

#include "cpu/gemm/bf16-inl.h"
#include "cpu/kernels/rows/rows-inl.h"
#include "tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

void AddTo(const float* x, int64_t n, float* y) {
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, y + i);
  });
}

void Scale(float factor, int64_t n, float* x) {
  Each(n, [=](auto d, int64_t i)
              HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i); });
}

float ProductSum(const float* x, const float* y, int64_t n) {
  return Sum16(n, [=](auto d, int64_t i)
                      HWY_ATTR { return hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)); });
}

float RowMax(const float* x, int64_t n) {
  return Max16(n, [x](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

float ExpSum(const float* x, float factor, float shift, int64_t n, float* y) {
  return Sum16(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto e =
        Exp(d, hn::Sub(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), hn::Set(d, shift)));
    hn::StoreU(e, d, y + i);
    return e;
  });
}

// Writes the maximum of each column. It uses two chains per column, because a comparison waits for
// the previous one.
void ColumnMax(const float* x, int64_t n, int64_t stride, int64_t columns, float* highest) {
  const F32 d;
  const auto larger = [](hn::Vec<F32> v, hn::Vec<F32> most)
                          HWY_ATTR { return hn::IfThenElse(hn::Gt(v, most), v, most); };
  for (int64_t c = 0; c < columns; c += kLanes) {
    auto most = hn::Set(d, -HUGE_VALF), other = most;
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) {
      most = larger(hn::LoadU(d, x + i * stride + c), most);
      other = larger(hn::LoadU(d, x + (i + 1) * stride + c), other);
    }
    if (i < n) most = larger(hn::LoadU(d, x + i * stride + c), most);
    hn::StoreU(larger(other, most), d, highest + c);
  }
}

// Writes exponentials and adds their sum per column, in the order of Sum16 and Tree16.
void ColumnExp(float* x, float factor, const float* shift, int64_t n, int64_t stride,
               int64_t columns, float* sums) {
  const F32 d;
  for (int64_t c = 0; c < columns; c += kLanes) {
    const auto start = hn::LoadU(d, shift + c);
    hn::Vec<F32> lanes[16];
    for (int64_t lane = 0; lane < 16; ++lane) {
      auto sum = hn::Zero(d);
      for (int64_t i = lane; i < n; i += 16) {
        float* at = x + i * stride + c;
        const auto e =
            ExpBelowOne(d, hn::Sub(hn::Mul(hn::LoadU(d, at), hn::Set(d, factor)), start));
        hn::StoreU(e, d, at);
        sum = hn::Add(sum, e);
      }
      lanes[lane] = sum;
    }
    for (int64_t half = 8; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane)
        lanes[lane] = hn::Add(lanes[lane], lanes[lane + half]);
    }
    hn::StoreU(hn::Add(hn::LoadU(d, sums + c), lanes[0]), d, sums + c);
  }
}

void ExpMoments(const float* x, float shift, int64_t n, float* e, float* sum, float* weighted) {
  *sum = ExpSum(x, 1.0f, shift, n, e);
  *weighted = Sum16(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto weight = hn::LoadU(d, e + i);
    return hn::IfThenElseZero(hn::Gt(weight, hn::Zero(d)), hn::Mul(weight, hn::LoadU(d, x + i)));
  });
}

void RoundBf16(const float* x, int64_t n, uint16_t* y) {
  const F32 d;
  const hn::RebindToSigned<F32> words;
  const hn::Rebind<uint16_t, F32> halves;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto upper = hn::ShiftRight<16>(RoundToBf16(hn::LoadU(d, x + i)));
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(words, upper)), halves, y + i);
  }
  for (; i < n; ++i) y[i] = f32_to_bf16(x[i]);
}

void WidenBf16(const uint16_t* x, int64_t n, float* y) {
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<uint16_t, decltype(d)> half;
    const hn::RebindToUnsigned<decltype(d)> bits;
    const auto wide = hn::PromoteTo(bits, hn::LoadU(half, x + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(wide)), d, y + i);
  });
}

void WidenI8(const int8_t* x, float scale, int64_t n, float* y) {
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<int8_t, decltype(d)> byte;
    const hn::RebindToSigned<decltype(d)> whole;
    const auto wide = hn::ConvertTo(d, hn::PromoteTo(whole, hn::LoadU(byte, x + i)));
    hn::StoreU(hn::Mul(wide, hn::Set(d, scale)), d, y + i);
  });
}

uint64_t EqualBits(const int32_t* x, int32_t value, int64_t n) {
  uint64_t bits = 0;
  int64_t i = 0;
  if constexpr (kLanes >= 8) {
    const hn::RebindToSigned<F32> d;
    for (; i + kLanes <= n; i += kLanes) {
      uint8_t bytes[8] = {};
      uint64_t lanes;
      hn::StoreMaskBits(d, hn::Eq(hn::LoadU(d, x + i), hn::Set(d, value)), bytes);
      hwy::CopyBytes<8>(bytes, &lanes); // all targets are little endian
      bits |= lanes << i;
    }
  }
  for (; i < n; ++i) bits |= static_cast<uint64_t>(x[i] == value) << i;
  return bits;
}

uint64_t NonzeroBits(const uint8_t* x, int64_t n) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < n; ++i) bits |= static_cast<uint64_t>(x[i] != 0) << i;
  return bits;
}

void Scores(float factor, float cap, int64_t n, float* x) {
  if (cap <= 0.0f) return Scale(factor, n, x);
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto s = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor));
    hn::StoreU(hn::Mul(hn::Set(d, cap), Tanh(d, hn::Div(s, hn::Set(d, cap)))), d, x + i);
  });
}

void ScoreGrads(float lse, float shift, float factor, float cap, int64_t n, float* s, float* dp) {
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto score = hn::LoadU(d, s + i);
    const auto p = Exp(d, hn::Sub(score, hn::Set(d, lse)));
    auto ds =
        hn::Mul(hn::Mul(p, hn::Sub(hn::LoadU(d, dp + i), hn::Set(d, shift))), hn::Set(d, factor));
    if (cap > 0.0f) {
      // d (cap tanh(z / cap)) / dz = 1 - (s / cap)^2. A masked score is -infinity and gets 0.
      const auto t = hn::Div(score, hn::Set(d, cap));
      ds = hn::IfThenElseZero(hn::Gt(p, hn::Zero(d)), hn::Mul(ds, Fnma(t, t, hn::Set(d, 1.0f))));
    }
    hn::StoreU(p, d, s + i);
    hn::StoreU(ds, d, dp + i);
  });
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// bf16 and int8 products in instructions that Highway's targets do not have. They are AVX-512 BF16
// (vdpbf16ps), AVX-512 VNNI and AVX-VNNI (vpdpbusd). The instructions are switched on only for
// these functions, which are called only on chips that have them.
//
// The dot products are written in assembler, because GCC 12 copies every sum before and after their
// intrinsics (60 % of peak).

#include "cpu/gemm/dot.h"

#include "base/threads/parallel.h"
#include "cpu/simd/targets.h"

#include <hwy/base.h>

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace dllm::cpu {
namespace {

int32_t load_four(const uint8_t* p) {
  int32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

// AVX512-VNNI is bit 11 of ECX in CPUID leaf 7, sub-leaf 0. clang 14 has no name for it.
bool has_avx512_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 11 & 1) != 0;
}

// Returns a bit of EAX in CPUID leaf 7, sub-leaf 1. Bit 4 is AVX-VNNI, bit 5 is AVX512-BF16.
bool has_leaf_bit(int bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> bit & 1) != 0;
}

} // namespace
} // namespace dllm::cpu

// --- AVX-512 BF16 ---

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,f16c,avx2")
#undef DLLM_DOT_NAMESPACE
#define DLLM_DOT_NAMESPACE dllm::cpu::avx512_bf16
#include "cpu/gemm/dot-inl.h"

namespace dllm::cpu::avx512_bf16 {
namespace {

struct Pairs {
  static constexpr int kLanes = 16;
  static constexpr bool kInteger = false;
  static constexpr int kTallest = 8, kTallestBlocks = 4, kGroup = 2;
  static constexpr int kWideRows = 4, kWide = 4, kWidest = 8;
  static constexpr int64_t kInputBytes = 4;
  using F = __m512;
  using Sum = __m512;
  using Weight = __m512i;
  using Input = __m512i;
  static HWY_INLINE Weight Load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static HWY_INLINE Input Spread(const uint8_t* x, int64_t) {
    return _mm512_set1_epi32(load_four(x));
  }
  static HWY_INLINE Sum Dot(Sum sum, Weight w, Input x) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
  static HWY_INLINE Sum Start(int32_t x) { return _mm512_set1_ps(static_cast<float>(x)); }
  static HWY_INLINE F Float(Sum sum) { return sum; }
  static HWY_INLINE F SetF(float x) { return _mm512_set1_ps(x); }
  static HWY_INLINE F LoadF(const float* p) { return _mm512_loadu_ps(p); }
  static HWY_INLINE void StoreF(F v, float* p) { _mm512_storeu_ps(p, v); }
  static HWY_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static HWY_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
};

void part(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  DotPart<Pairs>(g, row_begin, row_end, begin, end);
}

} // namespace
} // namespace dllm::cpu::avx512_bf16
HWY_POP_ATTRIBUTES

// --- AVX-512 VNNI ---

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c,avx2")
#undef DLLM_DOT_NAMESPACE
#define DLLM_DOT_NAMESPACE dllm::cpu::avx512_vnni
#include "cpu/gemm/dot-inl.h"

namespace dllm::cpu::avx512_vnni {
namespace {

struct Bytes {
  static constexpr int kLanes = 16;
  static constexpr bool kInteger = true;
  static constexpr int kTallest = 8, kTallestBlocks = 6, kGroup = 2;
  static constexpr int kWideRows = 4, kWide = 4, kWidest = 8;
  static constexpr int64_t kInputBytes = 4;
  using F = __m512;
  using Sum = __m512i;
  using Weight = __m512i;
  using Input = __m512i;
  static HWY_INLINE Weight Load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static HWY_INLINE Input Spread(const uint8_t* x, int64_t) {
    return _mm512_set1_epi32(load_four(x));
  }
  static HWY_INLINE Sum Dot(Sum sum, Weight w, Input x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
  }
  static HWY_INLINE Sum Start(int32_t x) { return _mm512_set1_epi32(x); }
  static HWY_INLINE F Float(Sum sum) { return _mm512_cvtepi32_ps(sum); }
  static HWY_INLINE F Halves(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static HWY_INLINE F SetF(float x) { return _mm512_set1_ps(x); }
  static HWY_INLINE F LoadF(const float* p) { return _mm512_loadu_ps(p); }
  static HWY_INLINE void StoreF(F v, float* p) { _mm512_storeu_ps(p, v); }
  static HWY_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static HWY_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static HWY_INLINE F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
};

void part(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  DotPart<Bytes>(g, row_begin, row_end, begin, end);
}

} // namespace
} // namespace dllm::cpu::avx512_vnni
HWY_POP_ATTRIBUTES

// --- AVX-VNNI ---

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avxvnni")
#undef DLLM_DOT_NAMESPACE
#define DLLM_DOT_NAMESPACE dllm::cpu::avx_vnni
#include "cpu/gemm/dot-inl.h"

namespace dllm::cpu::avx_vnni {
namespace {

struct Bytes {
  static constexpr int kLanes = 8;
  static constexpr bool kInteger = true;
  static constexpr int kTallest = 6, kTallestBlocks = 2, kGroup = 1;
  static constexpr int kWideRows = 0, kWide = 1, kWidest = 4;
  static constexpr int64_t kInputBytes = 4;
  using F = __m256;
  using Sum = __m256i;
  using Weight = __m256i;
  using Input = __m256i;
  static HWY_INLINE Weight Load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static HWY_INLINE Input Spread(const uint8_t* x, int64_t) {
    return _mm256_set1_epi32(load_four(x));
  }
  static HWY_INLINE Sum Dot(Sum sum, Weight w, Input x) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
    return sum;
  }
  static HWY_INLINE Sum Start(int32_t x) { return _mm256_set1_epi32(x); }
  static HWY_INLINE F Float(Sum sum) { return _mm256_cvtepi32_ps(sum); }
  static HWY_INLINE F Halves(const uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static HWY_INLINE F SetF(float x) { return _mm256_set1_ps(x); }
  static HWY_INLINE F LoadF(const float* p) { return _mm256_loadu_ps(p); }
  static HWY_INLINE void StoreF(F v, float* p) { _mm256_storeu_ps(p, v); }
  static HWY_INLINE F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static HWY_INLINE F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static HWY_INLINE F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
};

void part(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  DotPart<Bytes>(g, row_begin, row_end, begin, end);
}

} // namespace
} // namespace dllm::cpu::avx_vnni
HWY_POP_ATTRIBUTES

namespace dllm::cpu {

const DotKernel* avx512_bf16_kernel() {
  static const bool has = has_avx512() && has_leaf_bit(5);
  static constexpr DotKernel kernel{"avx512_bf16", round_to_pairs, avx512_bf16::part,
                                    avx512_bf16::DotChains<avx512_bf16::Pairs>};
  return has ? &kernel : nullptr;
}
const DotKernel* avx512_vnni_kernel() {
  static const bool has = has_avx512() && has_avx512_vnni();
  static constexpr DotKernel kernel{"avx512_vnni", round_to_bytes, avx512_vnni::part,
                                    avx512_vnni::DotChains<avx512_vnni::Bytes>};
  return has ? &kernel : nullptr;
}
const DotKernel* avx_vnni_kernel() {
  // Every chip with AVX-VNNI has F16C.
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_leaf_bit(4);
  static constexpr DotKernel kernel{"avx_vnni", round_to_bytes, avx_vnni::part,
                                    avx_vnni::DotChains<avx_vnni::Bytes>};
  return has ? &kernel : nullptr;
}

} // namespace dllm::cpu

// Transposes squares of 16 x 16 numbers of 32 bits. Vectors of 16 numbers (DLLM_HAS_LINES)
// transpose a square in registers; other targets use pieces of 4 x 4. The header is included once
// per target.

#if defined(DLLM_CPU_GEMM_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_TRANSPOSE_INL_H_
#undef DLLM_CPU_GEMM_TRANSPOSE_INL_H_
#else
#define DLLM_CPU_GEMM_TRANSPOSE_INL_H_
#endif

#include "cpu/gemm/quad.h"
#include "cpu/simd/math-inl.h"

#include <cstring>

#undef DLLM_HAS_LINES
#define DLLM_HAS_LINES (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

#if DLLM_HAS_LINES
using Line = uint32_t __attribute__((vector_size(64)));

// Takes columns a and b of every four numbers of x and y, and puts x and y of a column side by
// side.
template <int a, int b> HWY_INLINE Line Mix(Line x, Line y) {
  return __builtin_shufflevector(x, y, a, 16 + a, b, 16 + b, 4 + a, 20 + a, 4 + b, 20 + b, 8 + a,
                                 24 + a, 8 + b, 24 + b, 12 + a, 28 + a, 12 + b, 28 + b);
}
// Joins halves of every four numbers of x and y, the first half (h = 0) or the second half (h = 2).
template <int h> HWY_INLINE Line Halves(Line x, Line y) {
  return __builtin_shufflevector(x, y, h, h + 1, h + 16, h + 17, h + 4, h + 5, h + 20, h + 21,
                                 h + 8, h + 9, h + 24, h + 25, h + 12, h + 13, h + 28, h + 29);
}
// Joins groups of four of x and y, groups 0 and 2 (b = 0), or groups 1 and 3 (b = 4).
template <int b> HWY_INLINE Line Fours(Line x, Line y) {
  return __builtin_shufflevector(x, y, b, b + 1, b + 2, b + 3, b + 8, b + 9, b + 10, b + 11, b + 16,
                                 b + 17, b + 18, b + 19, b + 24, b + 25, b + 26, b + 27);
}

// Transposes 16 rows of 16 numbers in place.
HWY_INLINE void Transpose(Line (&v)[16]) {
  Line w[16];
  DLLM_UNROLL for (int i = 0; i < 16; i += 2) {
    w[i] = Mix<0, 1>(v[i], v[i + 1]);
    w[i + 1] = Mix<2, 3>(v[i], v[i + 1]);
  }
  // v[4 g + c] has the columns c, 4 + c, 8 + c and 12 + c of the rows 4 g to 4 g + 3.
  DLLM_UNROLL for (int i = 0; i < 16; i += 4) {
    v[i] = Halves<0>(w[i], w[i + 2]);
    v[i + 1] = Halves<2>(w[i], w[i + 2]);
    v[i + 2] = Halves<0>(w[i + 1], w[i + 3]);
    v[i + 3] = Halves<2>(w[i + 1], w[i + 3]);
  }
  DLLM_UNROLL for (int c = 0; c < 4; ++c) {
    const Line even = Fours<0>(v[c], v[4 + c]), even_below = Fours<0>(v[8 + c], v[12 + c]),
               odd = Fours<4>(v[c], v[4 + c]), odd_below = Fours<4>(v[8 + c], v[12 + c]);
    w[c] = Fours<0>(even, even_below);
    w[4 + c] = Fours<0>(odd, odd_below);
    w[8 + c] = Fours<4>(even, even_below);
    w[12 + c] = Fours<4>(odd, odd_below);
  }
  DLLM_UNROLL for (int i = 0; i < 16; ++i) v[i] = w[i];
}

// Transposes 16 rows of 16 numbers, `stride` numbers apart, into 16 lines, `to_stride` numbers
// apart.
HWY_INLINE void TransposeSquare(const float* from, int64_t stride, float* to, int64_t to_stride) {
  Line lines[16];
  DLLM_UNROLL for (int i = 0; i < 16; ++i) std::memcpy(&lines[i], from + i * stride, sizeof(Line));
  Transpose(lines);
  DLLM_UNROLL for (int i = 0; i < 16; ++i) std::memcpy(to + i * to_stride, &lines[i], sizeof(Line));
}
#else
HWY_INLINE void TransposeSquare(const float* from, int64_t stride, float* to, int64_t to_stride) {
  for (int64_t i = 0; i < 16; i += 4) {
    for (int64_t j = 0; j < 16; j += 4)
      transpose_quad(from + i * stride + j, stride, to + j * to_stride + i, to_stride);
  }
}
#endif

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

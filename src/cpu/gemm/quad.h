#pragma once
// Quad is a register of four numbers of 32 bits, which every target has without dispatch. Packing
// is limited by memory bandwidth, so wider registers gain little.

#include "cpu/gemm/gemm.h"

#include <cstdint>
#include <cstring>

namespace dllm::cpu {

using Quad = uint32_t __attribute__((vector_size(16)));

inline Quad load_quad(const void* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}

// Transposes four numbers of four rows, `stride` numbers apart, into four lines, `to_stride`
// numbers apart. The default `to_stride` is the stride of a panel.
inline void transpose_quad(const void* source, int64_t stride, void* to,
                           int64_t to_stride = kPanel) {
  const auto* from = static_cast<const uint32_t*>(source);
  const Quad a = load_quad(from), b = load_quad(from + stride), c = load_quad(from + 2 * stride),
             d = load_quad(from + 3 * stride);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
             cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
             ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
             cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Quad lines[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                         __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                         __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                         __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i)
    std::memcpy(static_cast<uint32_t*>(to) + i * to_stride, &lines[i], sizeof lines[i]);
}

// Rounds f32 to bf16 and returns it in the upper halves. It rounds to nearest with ties to even and
// keeps NaN, with the bits of f32_to_bf16.
inline Quad upper_halves(Quad words) {
  using Signed = int32_t __attribute__((vector_size(16)));
  const Quad nearest = words + 0x7FFFu + (words >> 16 & 1u);
  const Quad is_nan = (Quad)((Signed)(words & 0x7FFFFFFFu) > 0x7F800000);
  return (is_nan & (words | 0x400000u)) | (~is_nan & nearest);
}

// Returns pairs of bf16, with the number of `low` in the lower half.
inline Quad bf16_pairs(Quad low, Quad high) {
  return upper_halves(low) >> 16 | (upper_halves(high) & 0xFFFF0000u);
}

} // namespace dllm::cpu

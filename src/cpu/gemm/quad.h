#pragma once
// Four numbers of 32 bits in one register, on every target without dispatch: packing is bound by memory, not by width.

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

// Four numbers of four rows become a column piece of four lines, `to_stride` apart: those of a panel of 16.
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

// f32 rounded to bf16 (nearest, ties to even, NaN stays NaN: the bits of f32_to_bf16) in the upper halves.
inline Quad upper_halves(Quad words) {
  using Signed = int32_t __attribute__((vector_size(16)));
  const Quad nearest = words + 0x7FFFu + (words >> 16 & 1u);
  const Quad is_nan = (Quad)((Signed)(words & 0x7FFFFFFFu) > 0x7F800000);
  return (is_nan & (words | 0x400000u)) | (~is_nan & nearest);
}

// Pairs of bf16: the first number in the lower half.
inline Quad bf16_pairs(Quad low, Quad high) {
  return upper_halves(low) >> 16 | (upper_halves(high) & 0xFFFF0000u);
}

} // namespace dllm::cpu

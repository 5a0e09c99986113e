#pragma once
// Panels: an (n, k) matrix as [ceil(n / 16)][k][16], columns of the last panel beyond n are zero. A
// product streams one panel from front to back, whatever the instruction set, and every output is
// one chain over k.

#include "tensor/dtype.h"
#include "tensor/weight_format.h"

#include <cstddef>
#include <cstdint>

namespace dllm {
struct Workers;
}

namespace dllm::cpu {

inline constexpr int64_t kPanel = kPanelRows;

inline int64_t panel_count(int64_t n) {
  return (n + kPanel - 1) / kPanel;
}

// dtype: f32, bf16 or i8. `destination` holds packed_bytes(n, k, dtype) (cpu/kernel.h). source (n,
// k), rows `stride` elements apart.
void pack(DType dtype, const void* source, int64_t stride, int64_t n, int64_t k, void* destination,
          const Workers& pool);
// source (k, n), rows `stride` elements apart: packs its transpose, the matrix (n, k).
void pack_transposed(DType dtype, const void* source, int64_t stride, int64_t n, int64_t k,
                     void* destination, const Workers& pool);
// The exact inverse of pack: destination (n, k), dense.
void unpack(DType dtype, const void* packed, int64_t n, int64_t k, void* destination,
            const Workers& pool);
// The exact inverse of pack_transposed: destination (k, n), dense.
void unpack_transposed(DType dtype, const void* packed, int64_t n, int64_t k, void* destination,
                       const Workers& pool);

// --- matrices in blocks: (n, k) numbers are n rows of format.row_bytes(k) ---

int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k);
void pack(const WeightFormat& format, const void* source, int64_t n, int64_t k, void* destination,
          const Workers& pool);
// The exact inverse of pack.
void unpack(const WeightFormat& format, const void* packed, int64_t n, int64_t k, void* destination,
            const Workers& pool);
// The numbers of one row of a packed matrix. `to`: k of them.
void packed_row(const WeightFormat& format, const void* packed, int64_t k, int64_t row, float* to);
// f32 panels of the transpose (k, n): what pack_transposed makes of the dequantized matrix.
void pack_dequantized(const WeightFormat& format, const void* packed, int64_t n, int64_t k,
                      float* destination, const Workers& pool);

} // namespace dllm::cpu

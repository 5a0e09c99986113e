#pragma once
// C = A B^T with B in panels. Every element of C is one chain of fused multiply-adds over k = 0..K-1, then times scale,
// then plus bias: the same bits for any cut into rows, panels and threads, and on every instruction set.

#include "base/parallel.h"
#include "tensor/dtype.h"
#include "tensor/weight_format.h"

#include <cstddef>
#include <cstdint>

namespace dllm::cpu {

// Panels: an (n, k) matrix as [ceil(n / 16)][k][16], columns of the last panel beyond n are zero. A
// product streams one panel from front to back, whatever the instruction set, and every output is
// one chain over k.

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

// C = A B^T with B in panels. Every element of C is one chain of fused multiply-adds over
// k = 0..K-1, then times scale, then plus bias: the same bits for any cut into rows, panels and
// threads, and on every instruction set.

struct Gemm {
  const float* a = nullptr;  // (m, k)
  int64_t a_stride = 0;      // elements between rows
  int64_t a_step = 1;        // elements between k and k + 1: a transposed A is read in place
  const void* b = nullptr;   // panels of an (n, k) matrix
  DType b_type = DType::f32; // f32, bf16, i8
  const WeightFormat* b_format = nullptr; // not null: panels of blocks; REQUIRES: k is whole blocks
  int64_t b_chain = 0; // chain length the panels were packed with, when `b` points into it; 0: k
  float* c = nullptr;  // (m, n)
  int64_t c_stride = 0;
  int64_t m = 0, n = 0, k = 0;
  bool accumulate = false;      // the chain starts at C instead of 0; REQUIRES: no scale
  const float* scale = nullptr; // f32(n), or none
  const float* bias = nullptr;  // f32(n), or none
  // Checked every few ms of arithmetic; gemm_parallel takes that of its workers.
  const Task* task = nullptr;
};

// The panels' row in bytes of k numbers; of b_type, or of b_format.
int64_t line_bytes(const Gemm& gemm, int64_t k);
// Whether products read panels of this block format: it has a lane loader (lanes-inl.h).
bool gemm_reads(const WeightFormat& format);

// On the calling thread. Rows [row_begin, row_end) and panels [panel_begin, panel_end) of C.
void gemm_part(const Gemm& gemm, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end);
inline void gemm_serial(const Gemm& gemm) {
  gemm_part(gemm, 0, gemm.m, 0, panel_count(gemm.n));
}
// Cut over the pool's threads.
void gemm_parallel(const Gemm& gemm, const Workers& pool);

// f32 multiply-adds x 2 per second of all threads together, from independent chains in registers.
// About 50 ms.
double measure_peak_flops(const Workers& pool, int threads);

// The name of the instruction set in use: "AVX3", "AVX2", "SCALAR".
const char* simd_target();

} // namespace dllm::cpu

#pragma once
// C = A B^T with B in panels. Every element of C is one chain of fused multiply-adds over k = 0..K-1, then times scale,
// then plus bias: the same bits for any cut into rows, panels and threads, and on every instruction set.

#include "base/parallel.h"
#include "cpu/run_pause.h"
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

// --- matrices of weights, in the layout that the arithmetic of the engine reads ---

enum class PanelLayout : uint8_t {
  elements, // as above: f32 products
  pairs,    // bf16, two k of a column together (dot.h)
  quads,    // int8, four k of a column together (dot.h)
};

// How a weight (out, in) lies in panels: for x w^T, or transposed for dy w.
struct PanelForm {
  DType dtype;                // of its elements
  const WeightFormat* format; // of a weight in blocks, or null; REQUIRES: not transposed
  PanelLayout layout;
  bool transposed;

  // Pairs are rounded from f32, so that the weight itself has to be kept as well.
  bool is_exact() const { return layout != PanelLayout::pairs || dtype == DType::bf16; }
  int64_t line_bytes(int64_t k) const; // of one row of a panel
  int64_t bytes(int64_t out, int64_t in) const;
};
// The layout of the arithmetic, or that of f32 where the format cannot be multiplied in it.
PanelForm panel_form(Arithmetic arithmetic, DType dtype, const WeightFormat* format, int64_t in,
                     bool transposed);
// source (out, in), dense.
void pack(const PanelForm& form, const void* source, int64_t out, int64_t in, void* destination,
          const Workers& pool);
// The exact inverse. REQUIRES: form.is_exact().
void unpack(const PanelForm& form, const void* packed, int64_t out, int64_t in, void* destination,
            const Workers& pool);
// The numbers of one row of a weight in blocks. `to`: in of them.
void packed_row(const PanelForm& form, const void* packed, int64_t in, int64_t row, float* to);

void pack_dequantized(const PanelForm& form, const void* packed, int64_t out, int64_t in,
                      float* destination, const Workers& pool);

// C = A B^T with B in panels. Every element of C is one chain of fused multiply-adds over
// k = 0..K-1, then times scale, then plus bias: the same bits for any cut into rows, panels and
// threads, and on every instruction set.
//
// In the arithmetics bf16 and int8 the rows of A are rounded first, into `rounded`. bf16: one chain of f32 sums over pairs
// of k; the bits are those of one kind of chip (with AMX: of chains that are cut at multiples of 32). int8: exact integer sums, times the scale of the row, then as above; with
// blocks one chain of sums times their two scales. Also there no cut changes a bit.

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
  bool accumulate = false;      // the chain starts at C instead of 0; REQUIRES: no scale, not int8
  const float* scale = nullptr; // f32(n), or none
  const float* bias = nullptr;  // f32(n), or none
  PanelLayout layout = PanelLayout::elements;
  // Other layouts: rounded_bytes() of work space, 64-byte aligned. quads REQUIRE a_step = 1.
  std::byte* rounded = nullptr;
  // Checked every few ms of arithmetic; gemm_parallel takes that of its workers.
  const Task* task = nullptr;
};

// The panels' row in bytes of k numbers. `k` of a part of a chain: even for pairs.
int64_t line_bytes(const Gemm& gemm, int64_t k);
// Work space of gemm.m rows of gemm.k numbers; 0 in f32.
int64_t rounded_bytes(const Gemm& gemm);
// The first rows of A into gemm.rounded, where the layout needs it: before gemm_part; gemm_parallel does it itself.
void round_activations(const Gemm& gemm, int64_t rows, const Workers& pool);
// What multiplies panels of this layout on this chip: "avx512_vnni".
const char* dot_kernel_name(PanelLayout layout);
// Whether products read panels of this block format: it has a lane loader (lanes-inl.h).
bool gemm_reads(const WeightFormat& format);

// On the calling thread. Rows [row_begin, row_end) and panels [panel_begin, panel_end) of C.
void gemm_part(const Gemm& gemm, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end);
inline void gemm_serial(const Gemm& gemm) {
  gemm_part(gemm, 0, gemm.m, 0, panel_count(gemm.n));
}
// Cut over the pool's threads.
// pause, when given, is looked at about every half a millisecond. Bits do not depend on it.
void gemm_parallel(const Gemm& gemm, const Workers& pool, RunPause* pause = nullptr);

// f32 multiply-adds x 2 per second of all threads together, from independent chains in registers.
// About 50 ms.
double measure_peak_flops(const Workers& pool, int threads);

// The name of the instruction set in use: "AVX3", "AVX2", "SCALAR".
const char* simd_target();

} // namespace dllm::cpu

#pragma once
// Matrix products C = A B^T where B is packed into panels. The header has packing and products.

#include "base/threads/parallel.h"
#include "cpu/run_pause.h"
#include "tensor/dtype.h"
#include "tensor/weight_format.h"

#include <cstddef>
#include <cstdint>

namespace dllm::cpu {

// A panel has 16 rows of an (n, k) matrix, whose panels are [ceil(n / 16)][k][16]. The columns of
// the last panel beyond n are zero. A product reads a panel from start to end on every instruction
// set. Every output is one chain over k.

inline constexpr int64_t kPanel = kPanelRows;

inline int64_t panel_count(int64_t n) {
  return (n + kPanel - 1) / kPanel;
}

// Packs `source` (n, k), whose rows are `stride` elements apart. `dtype` is f32, bf16 or i8.
// `destination` has packed_bytes(n, k, dtype) bytes (cpu/kernel.h).
void pack(DType dtype, const void* source, int64_t stride, int64_t n, int64_t k, void* destination,
          const Workers& pool);
// Packs the transpose (n, k) of `source` (k, n), whose rows are `stride` elements apart.
void pack_transposed(DType dtype, const void* source, int64_t stride, int64_t n, int64_t k,
                     void* destination, const Workers& pool);
// Unpacks a matrix exactly. `destination` is (n, k), dense.
void unpack(DType dtype, const void* packed, int64_t n, int64_t k, void* destination,
            const Workers& pool);

// --- Matrices in blocks. An (n, k) matrix has n rows of format.row_bytes(k) bytes. ---

int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k);
void pack(const WeightFormat& format, const void* source, int64_t n, int64_t k, void* destination,
          const Workers& pool);
// Unpacks a matrix exactly.
void unpack(const WeightFormat& format, const void* packed, int64_t n, int64_t k, void* destination,
            const Workers& pool);
// Writes the k numbers of one row of a packed matrix.
void packed_row(const WeightFormat& format, const void* packed, int64_t k, int64_t row, float* to);

// --- Weights in the layout that the arithmetic of the engine reads. ---

enum class PanelLayout : uint8_t {
  elements, // [k][16], for f32 products
  pairs,    // bf16, two k of a column together (dot.h)
  quads,    // int8, four k of a column together (dot.h)
};

// The panels of a weight (out, in), for the product x w^T, or transposed for dy w.
struct PanelForm {
  DType dtype = DType::f32;             // of the weight's elements
  const WeightFormat* format = nullptr; // null: not in blocks. REQUIRES: null when transposed
  PanelLayout layout = PanelLayout::elements;
  bool transposed = false;

  // Returns true if panels of the transpose are expanded from these panels. Then no second form of
  // the weight is kept.
  bool turns() const { return format != nullptr || dtype == DType::i8; }

  // Returns true if the panels have the exact numbers. Pairs are rounded from f32, so such a weight
  // must be kept as well.
  bool is_exact() const { return layout != PanelLayout::pairs || dtype == DType::bf16; }
  int64_t line_bytes(int64_t k) const; // bytes of one of a panel's 16 rows, with k numbers
  int64_t bytes(int64_t out, int64_t in) const;
};
// Returns the panel form of the arithmetic. Its layout is `elements` when the arithmetic cannot
// multiply the weight, or expands its panels (Expansion).
PanelForm panel_form(Arithmetic arithmetic, DType dtype, const WeightFormat* format, int64_t in,
                     bool transposed);
// Packs `source` (out, in), dense.
void pack(const PanelForm& form, const void* source, int64_t out, int64_t in, void* destination,
          const Workers& pool);
// Unpacks a weight exactly. REQUIRES: form.is_exact(), not form.transposed.
void unpack(const PanelForm& form, const void* packed, int64_t out, int64_t in, void* destination,
            const Workers& pool);
// Writes the `in` numbers of one row of a weight in blocks.
void packed_row(const PanelForm& form, const void* packed, int64_t in, int64_t row, float* to);

// What a product does with panels in blocks, or in int8, before it reads them.
enum class Expansion : uint8_t {
  none,   // it reads them as they are
  rows,   // it makes f32 panels, if there are many rows of A, or pairs of bf16
  turned, // it makes panels of the transpose, in f32 or pairs of bf16
};
// Returns what products in an arithmetic do with a weight that is packed in `stored`. `transposed`
// is set for dy w.
Expansion expansion_of(Arithmetic arithmetic, const PanelForm& stored, bool transposed);

// A product C = A B^T with B in panels. In f32 every element of C is one chain of fused
// multiply-adds over k = 0..K-1, then times scale, then plus bias. The bits are the same for any
// cut into rows, panels and threads, and on every instruction set.
//
// In the arithmetics bf16 and int8 the rows of A are rounded first, into `rounded`. In these
// arithmetics, too, a cut into rows, panels and threads changes no bits.
// - bf16: one chain of f32 sums over pairs of k. The bits depend on the kind of chip. With AMX the
// chains are cut at multiples of 32.
// - int8: exact integer sums, times the scale of the row, then scale and bias as above. With
// blocks, one chain of the sums of the blocks times their two scales.

struct Gemm {
  const float* a = nullptr;  // (m, k)
  int64_t a_stride = 0;      // elements between rows
  int64_t a_step = 1;        // elements between k and k + 1: a transposed A is read in place
  const void* b = nullptr;   // panels of an (n, k) matrix
  DType b_type = DType::f32; // f32, bf16, i8
  const WeightFormat* b_format = nullptr; // not null: panels of blocks. REQUIRES: k is whole blocks
  int64_t b_chain = 0; // k of the packed panels, when `b` points into a longer chain; 0: k
  float* c = nullptr;  // (m, n)
  int64_t c_stride = 0;
  int64_t m = 0, n = 0, k = 0;
  bool accumulate = false;      // the chain begins with C, not 0. REQUIRES: no scale, not int8
  const float* scale = nullptr; // f32(n), or none
  const float* bias = nullptr;  // f32(n), or none
  PanelLayout layout = PanelLayout::elements;
  // Work space of rounded_bytes(), 64-byte aligned; unused with `elements`. REQUIRES: a_step = 1
  // with `quads`.
  std::byte* rounded = nullptr;
  // With an expansion `b` has panels of the form `stored`, and `layout` describes the expanded
  // panels. A weight (k, n) has turned panels. REQUIRES: b_chain = 0, gemm_parallel.
  Expansion expansion = Expansion::none;
  PanelForm stored{};
  std::byte* expanded = nullptr; // work space of expanded_bytes(), 64-byte aligned
  // Checked every few ms of arithmetic. gemm_parallel uses the task of its workers in place of it.
  const Task* task = nullptr;
};

// Returns the bytes of k numbers in one of a panel's 16 rows. For a part of a chain of pairs k must
// be even.
int64_t line_bytes(const Gemm& gemm, int64_t k);
// Returns the bytes of work space for gemm.m rows of gemm.k numbers; 0 in f32.
int64_t rounded_bytes(const Gemm& gemm);
// Returns the bytes of work space for one stripe of expanded panels; 0 without an expansion.
int64_t expanded_bytes(const Gemm& gemm);
// Rounds the first `rows` rows of A into gemm.rounded, unless the layout is `elements`. It must be
// called before gemm_part. gemm_parallel calls it itself.
void round_activations(const Gemm& gemm, int64_t rows, const Workers& pool);
// Returns the name of the kernel for this layout on this chip, such as "avx512_vnni".
const char* dot_kernel_name(PanelLayout layout);
// Returns true if products can read panels of this block format, that is, if it has a lane loader
// (lanes-inl.h).
bool gemm_reads(const WeightFormat& format);

// Computes the rows [row_begin, row_end) and the panels [panel_begin, panel_end) of C on the
// calling thread.
void gemm_part(const Gemm& gemm, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end);
inline void gemm_serial(const Gemm& gemm) {
  gemm_part(gemm, 0, gemm.m, 0, panel_count(gemm.n));
}
// Computes C on the threads of the pool. `pause`, when not null, is called about every half a
// millisecond and does not change bits.
void gemm_parallel(const Gemm& gemm, const Workers& pool, RunPause* pause = nullptr);

// Measures the peak of all threads together, in f32 operations per second. A multiply-add counts as
// two operations. The measurement runs independent chains in registers for about 60 ms.
double measure_peak_flops(const Workers& pool, int threads);

// Returns the name of the instruction set in use, such as "AVX3", "AVX2" or "SCALAR".
const char* simd_target();

} // namespace dllm::cpu

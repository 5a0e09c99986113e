#pragma once
// Products in the arithmetics bf16 and int8: panels whose lines hold several k of a column, activations that are rounded once
// into work space, and the kernels that multiply both. gemm.h calls them; f32 products never come here.
//
//   pairs  [ceil(n / 16)][ceil(k / 2)][16][2]  bf16
//   quads  [ceil(n / 16)][ceil(k / 4)][16][4]  int8 + 128 as u8; a panel of q8_0: [block][16] scales first
//
// A line is 64 bytes in both.

#include "cpu/gemm/gemm.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

inline constexpr int64_t kLineBytes = 64;
// A tile of AMX: 16 lines.
inline constexpr int64_t kAmxTileRows = 16;
inline constexpr int64_t kAmxTileBytes = kAmxTileRows * kLineBytes;

// What a product of activations in int8 needs to know of its rows, and where they lie in Gemm::rounded.
//
// A row is q = round(x / s) with s = max|x| / 127 (symmetric, ties to even); where the weight has blocks, each block of the row
// has its own s: a large number then widens the levels of its block alone. Weights are stored as w + 128, so a row begins
// its sums with start = -128 * (q_0 + q_1 + ..), which makes them those of w: exact in 32 bits.
struct RoundedRows {
  float* scale = nullptr;   // (m, blocks) s; int8 only
  int32_t* start = nullptr; // (m, blocks); int8 only
  int64_t blocks = 1;       // of a weight's row
  uint8_t* data = nullptr;  // rows in the form of the kernel
  int64_t stride = 0;       // bytes from row to row
  int64_t plane = 0;        // bytes from the even to the odd numbers, where a kernel has them apart
  int64_t bytes = 0;        // of all
};
RoundedRows rounded_rows(const Gemm& gemm);

// Activations of AMX lie in tiles instead, [ceil(m / 16)][tile_steps][16][64 bytes] at `data`: what is loaded at once is one
// kilobyte, whatever k is. The last tile of a row ends with zeros.
int64_t tile_steps(const Gemm& gemm);
// Row r in its first tile; the next one is kAmxTileBytes behind.
uint8_t* tile_row(const Gemm& gemm, const RoundedRows& rows, int64_t r);
// The same, after the numbers behind k in the last tile are set to 0.
uint8_t* clear_tile_tail(const Gemm& gemm, const RoundedRows& rows, int64_t r);

// One way to multiply. Functions of one arithmetic differ in speed; those of int8 have the same bits.
struct DotKernel {
  const char* name;
  // Rows [begin, end) of A into Gemm::rounded.
  void (*round)(const Gemm& gemm, int64_t begin, int64_t end);
  // As gemm_part.
  void (*part)(const Gemm& gemm, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end);
  // Independent sums in registers; returns the multiply-adds done. For measurements.
  int64_t (*chains)(int64_t rounds, float* sink);
};

// The fastest on this chip.
DotKernel dot_kernel(PanelLayout layout);
// All that run on this chip, the fastest first.
std::vector<DotKernel> dot_kernels(PanelLayout layout);

// Whether two kernels give about (int8: exactly) the same product of small matrices.
bool same_products(const DotKernel& one, const DotKernel& other, PanelLayout layout);

// Instructions that Highway's targets do not have; null where the chip lacks them (dot_x86.cpp, dot_amx.cpp,
// dot_portable.cpp). Those of AMX also where the system or DLLM_AMX=0 forbids them, or where they differ from AVX-512.
const DotKernel* amx_bf16_kernel();
const DotKernel* amx_int8_kernel();
const DotKernel* avx512_bf16_kernel();
const DotKernel* avx512_vnni_kernel();
const DotKernel* avx_vnni_kernel();

// The activations of those kernels: bf16 pairs, and bytes.
void round_to_pairs(const Gemm& gemm, int64_t begin, int64_t end);
void round_to_bytes(const Gemm& gemm, int64_t begin, int64_t end);
// The same in tiles.
void round_to_pair_tiles(const Gemm& gemm, int64_t begin, int64_t end);
void round_to_byte_tiles(const Gemm& gemm, int64_t begin, int64_t end);

// Compares the integer kernel of this chip with sums in plain C++, on a small matrix. Fails with internal and the name of the
// kernel.
void check_int8_kernel();

} // namespace dllm::cpu

#pragma once
// Products in the arithmetics bf16 and int8. A line of their panels has several k of each column.
// Activations are rounded once into work space. The functions of gemm.h choose a kernel; f32
// products do not use this header.
//
//   pairs  [ceil(n / 16)][ceil(k / 2)][16][2]  bf16
//   quads  [ceil(n / 16)][ceil(k / 4)][16][4]  int8 + 128 as u8
//
// A line has 64 bytes in both layouts. A panel of q8_0 begins with its scales, f16[block][16].

#include "cpu/gemm/gemm.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

inline constexpr int64_t kLineBytes = 64;
// A tile of AMX has 16 lines.
inline constexpr int64_t kAmxTileRows = 16;
inline constexpr int64_t kAmxTileBytes = kAmxTileRows * kLineBytes;

// The rounded rows of A and their places in Gemm::rounded.
//
// A row in int8 is q = round(x / s) with s = max|x| / 127 (symmetric, ties to even). If the weight
// has blocks, each block of the row has its own s, so a large number widens only the levels of its
// block. Weights are stored as w + 128. So the sums of a row begin with start = -128 * (q_0 + q_1 +
// ..), and then equal the sums with w, exact in 32 bits.
struct RoundedRows {
  float* scale = nullptr;   // (m, blocks) s; int8 only
  int32_t* start = nullptr; // (m, blocks); int8 only
  int64_t blocks = 1;       // blocks of a weight's row
  uint8_t* data = nullptr;  // rows in the form of the kernel
  int64_t stride = 0;       // bytes from row to row
  int64_t plane = 0;        // bytes from even to odd numbers, where a kernel separates them
  int64_t bytes = 0;        // bytes of the work space
};
// Returns the places of the rounded rows; only the sizes and offsets are set when gemm.rounded is
// null.
RoundedRows rounded_rows(const Gemm& gemm);

// Returns the tiles along k. Activations of AMX are stored in tiles at `data`, [ceil(m /
// 16)][tile_steps][16][64 bytes]. So one load reads one kilobyte for every k. The last tile of a
// row ends with zeros.
int64_t tile_steps(const Gemm& gemm);
// Returns row r in its first tile. Its place in the next tile is kAmxTileBytes later.
uint8_t* tile_row(const Gemm& gemm, const RoundedRows& rows, int64_t r);
// Sets the numbers after k in the last tile of row r to 0, and returns tile_row().
uint8_t* clear_tile_tail(const Gemm& gemm, const RoundedRows& rows, int64_t r);

// A kernel is one implementation of the products of an arithmetic. Kernels differ in speed. All
// kernels of int8 give the same bits.
struct DotKernel {
  const char* name;
  // Rounds the rows [begin, end) of A into Gemm::rounded.
  void (*round)(const Gemm& gemm, int64_t begin, int64_t end);
  // Computes a part of C, as gemm_part.
  void (*part)(const Gemm& gemm, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end);
  // Computes independent sums in registers and returns the multiply-adds done. For measurements.
  int64_t (*chains)(int64_t rounds, float* sink);
};

// Returns the fastest kernel that runs on this chip.
DotKernel dot_kernel(PanelLayout layout);
// Returns all kernels that run on this chip, the fastest first.
std::vector<DotKernel> dot_kernels(PanelLayout layout);

// Returns true if two kernels give the same product of small matrices, exactly for int8 and about
// for bf16.
bool same_products(const DotKernel& one, const DotKernel& other, PanelLayout layout);

// Kernels in instructions that Highway's targets do not have (dot_x86.cpp, dot_amx.cpp,
// dot_portable.cpp). Each function returns null when the chip lacks the instructions. The functions
// of AMX also return null when the system or DLLM_AMX=0 forbids AMX, or when its products differ
// from AVX-512.
const DotKernel* amx_bf16_kernel();
const DotKernel* amx_int8_kernel();
const DotKernel* avx512_bf16_kernel();
const DotKernel* avx512_vnni_kernel();
const DotKernel* avx_vnni_kernel();

// Round the rows [begin, end) of A for these kernels, to bf16 pairs or to bytes.
void round_to_pairs(const Gemm& gemm, int64_t begin, int64_t end);
void round_to_bytes(const Gemm& gemm, int64_t begin, int64_t end);
// Round the rows [begin, end) of A into tiles of AMX.
void round_to_pair_tiles(const Gemm& gemm, int64_t begin, int64_t end);
void round_to_byte_tiles(const Gemm& gemm, int64_t begin, int64_t end);

// Compares the int8 kernel of this chip with sums in plain C++, on a small matrix. Fails with
// internal and the name of the kernel when they differ.
void check_int8_kernel();

} // namespace dllm::cpu

#pragma once
// f32 matrices into whole panels, in the widest vectors of the chip: as they are, or rounded to pairs of bf16 (dot.h). A step
// packs every trained weight twice, so it runs at the rate of memory.

#include "base/parallel.h"

#include <cstdint>

namespace dllm::cpu {

// `panels` neighbouring panels whose columns are neighbours in the source, `panel_step` numbers apart. Line i of each is row i
// of the source, `stride` numbers from the next.
void pack_rows(const float* source, int64_t stride, int64_t k, int64_t panels, float* to,
               int64_t panel_step, const Workers& pool);
// Line i is rows 2i and 2i + 1; an odd k ends with zeros.
void pair_rows(const float* source, int64_t stride, int64_t k, int64_t panels, uint16_t* to,
               int64_t panel_step, const Workers& pool);

// A panel whose 16 columns are rows of the source, `stride` numbers apart. Returns how many of the k lines are made: all when k is
// a multiple of 4, of 8 for pairs.
int64_t pack_columns(const float* source, int64_t stride, int64_t k, float* panel);
int64_t pair_columns(const float* source, int64_t stride, int64_t k, uint16_t* panel);

// to (columns, rows), rows `to_stride` apart = the transpose of `from` (rows, columns), rows `stride` apart.
void transpose(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride, const Workers& pool);

} // namespace dllm::cpu

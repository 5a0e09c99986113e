#pragma once
// Packs f32 matrices into whole panels with the widest vectors of the chip, as f32 or rounded to
// pairs of bf16 (dot.h). A training step packs every weight twice, so packing must reach the
// bandwidth of memory.

#include "base/threads/parallel.h"

#include <cstdint>

namespace dllm::cpu {

// Packs `panels` neighbouring panels, `panel_step` numbers apart. Line i of each panel is 16
// neighbouring numbers of row i of the source. The k rows of the source are `stride` numbers apart.
void pack_rows(const float* source, int64_t stride, int64_t k, int64_t panels, float* to,
               int64_t panel_step, const Workers& pool);
// Packs panels of pairs, as pack_rows. Line i has the rows 2i and 2i + 1. For an odd k the last
// line ends with zeros.
void pair_rows(const float* source, int64_t stride, int64_t k, int64_t panels, uint16_t* to,
               int64_t panel_step, const Workers& pool);

// Packs a panel whose 16 columns are rows of the source, `stride` numbers apart. Returns the number
// of k that are packed: all when k is a multiple of 4, or of 8 for pairs.
int64_t pack_columns(const float* source, int64_t stride, int64_t k, float* panel);
int64_t pair_columns(const float* source, int64_t stride, int64_t k, uint16_t* panel);

// Writes the transpose of `from` (rows, columns) to `to` (columns, rows). Rows of `from` are
// `stride` numbers apart, rows of `to` are `to_stride` numbers apart.
void transpose(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride, const Workers& pool);

} // namespace dllm::cpu

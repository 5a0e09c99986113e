#pragma once
// Expands panels of a weight in blocks, or in int8, into the panels that a product reads. A product
// expands one stripe at a time (Gemm::expansion), so the weight has no second copy.

#include "base/threads/parallel.h"
#include "cpu/gemm/gemm.h"

#include <cstddef>
#include <cstdint>

namespace dllm::cpu {

// The packed panels of a weight, or of some of its rows, from a multiple of 16 on.
struct PanelSource {
  PanelForm form; // REQUIRES: in blocks or int8, not transposed
  const std::byte* panels;
  int64_t rows;
  int64_t columns; // numbers of a row
};

// Writes the panels [first, first + count) as `elements` of f32, or as `pairs` of bf16 (dot.h),
// which are rounded to nearest with ties to even.
void expand_rows(const PanelSource& source, int64_t first, int64_t count, PanelLayout layout,
                 std::byte* to, const Workers& pool);
// Writes panels of the transpose: the columns [begin, begin + count), with chains over the rows.
// The layout is `elements` of f32, or `pairs`. REQUIRES: begin is a multiple of turned_columns().
void expand_turned(const PanelSource& source, int64_t begin, int64_t count, PanelLayout layout,
                   std::byte* to, const Workers& pool);
// Returns the number of columns that are turned together: whole blocks and whole panels.
int64_t turned_columns(const PanelForm& form);

} // namespace dllm::cpu

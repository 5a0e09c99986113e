// take and take_along. StableHLO's gather clamps what it reads, as the graph does.

#include "pjrt/emit/build.h"
#include "pjrt/emit/ops/ops.h"

#include <fmt/format.h>

namespace dllm::pjrt::hlo::ops {
namespace {

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> list;
  for (int64_t i = begin; i < end; ++i) list.push_back(i);
  return list;
}

} // namespace

// Rows of the first axis: indices.shape + table.shape[1:].
Ssa take_rows(Writer& w, const Ssa& table, const Ssa& indices) {
  const int64_t rank = indices.shape().rank();
  std::vector<int64_t> sizes = table.shape().dims(), dims = indices.shape().dims();
  sizes[0] = 1;
  dims.insert(dims.end(), sizes.begin() + 1, sizes.end());
  const int64_t result_rank = static_cast<int64_t>(dims.size());
  return w.op1("stablehlo.gather", {table, indices}, {table.element(), Shape(std::move(dims))},
               fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = {}, "
                           "collapsed_slice_dims = [0], start_index_map = [0], "
                           "index_vector_dim = {}>, slice_sizes = {}, indices_are_sorted = false",
                           list_text(range(rank, result_rank)), rank, array_text(sizes)));
}

Ssa take_along(Writer& w, const Ssa& x, const Ssa& indices, int64_t axis) {
  const int64_t rank = x.shape().rank();
  std::vector<int64_t> others = range(0, rank);
  others.erase(others.begin() + axis);
  const std::string batch = list_text(others);
  return w.op1("stablehlo.gather", {x, indices}, {x.element(), indices.shape()},
               fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = [], "
                           "collapsed_slice_dims = [{0}], operand_batching_dims = {1}, "
                           "start_indices_batching_dims = {1}, start_index_map = [{0}], "
                           "index_vector_dim = {2}>, slice_sizes = {3}, indices_are_sorted = false",
                           axis, batch, rank,
                           array_text(std::vector<int64_t>(static_cast<size_t>(rank), 1))));
}

// bf16 and i8 rows are widened after they are read; an i8 row times its scale.
void emit_take(EmitCall& call) {
  Writer& w = call.w;
  const Ssa table = call.in(0), indices = call.in(1);
  const Ssa rows = take_rows(w, table, indices);
  const Type wanted = call.out_type();
  if (rows.element() == wanted.element) return call.out(rows);
  Ssa y = build::convert(w, rows, wanted.element);
  if (call.a.flag("has_scale")) {
    const Ssa scale = take_rows(w, call.in(2), indices);
    y = build::binary(w, "multiply", y,
                      build::broadcast(w, scale, y.shape(), range(0, scale.shape().rank())));
  }
  call.out(y);
  if (table.element() == Element::bf16) call.out_slot(0).narrow = rows;
}

void emit_take_along(EmitCall& call) {
  call.out(take_along(call.w, call.in(0), call.in(1), call.a.integer("axis")));
}

} // namespace dllm::pjrt::hlo::ops

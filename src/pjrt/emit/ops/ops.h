#pragma once
// Every emitter, and the pieces some of them share.

#include "pjrt/emit/scope.h"

namespace dllm::pjrt::hlo::ops {

void emit_all_gather(EmitCall& call);
void emit_all_reduce_max(EmitCall& call);
void emit_all_reduce(EmitCall& call);
void emit_all_to_all(EmitCall& call);
void emit_argmax(EmitCall& call);
void emit_axis_index(EmitCall& call);
void emit_barrier(EmitCall& call);
void emit_binary(EmitCall& call);
void emit_bitcast(EmitCall& call);
void emit_broadcast(EmitCall& call);
void emit_clamp(EmitCall& call);
void emit_compare(EmitCall& call);
void emit_concat(EmitCall& call);
void emit_constant(EmitCall& call);
void emit_convert(EmitCall& call);
void emit_cumsum(EmitCall& call);
void emit_divide(EmitCall& call);
void emit_dot(EmitCall& call);
void emit_dynamic_slice(EmitCall& call);
void emit_dynamic_update_slice(EmitCall& call);
void emit_erf(EmitCall& call);
void emit_erf_inv(EmitCall& call);
void emit_iota(EmitCall& call);
void emit_is_finite(EmitCall& call);
void emit_logical(EmitCall& call);
void emit_logical_not(EmitCall& call);
void emit_pad(EmitCall& call);
void emit_permute(EmitCall& call);
void emit_random_bits(EmitCall& call);
void emit_reduce(EmitCall& call);
void emit_reduce_scatter(EmitCall& call);
void emit_remainder(EmitCall& call);
void emit_reshape(EmitCall& call);
void emit_reverse(EmitCall& call);
void emit_same(EmitCall& call); // the operand itself
void emit_scan(EmitCall& call);
void emit_scatter_add(EmitCall& call);
void emit_scatter_set(EmitCall& call);
void emit_select(EmitCall& call);
void emit_shift(EmitCall& call);
void emit_slice(EmitCall& call);
void emit_sort(EmitCall& call);
void emit_take(EmitCall& call);
void emit_take_along(EmitCall& call);
void emit_top_k(EmitCall& call);
void emit_transpose(EmitCall& call);
void emit_unary(EmitCall& call);
void emit_while(EmitCall& call);

// Rows of the first axis, and elements along one: indices are clamped.
Ssa take_rows(Writer& w, const Ssa& table, const Ssa& indices);
Ssa take_along(Writer& w, const Ssa& x, const Ssa& indices, int64_t axis);
// One row of the first axis, read and replaced; index i32().
Ssa read_row(Writer& w, const Ssa& stacked, const Ssa& index);
Ssa write_row(Writer& w, const Ssa& stacked, const Ssa& row, const Ssa& index);

} // namespace dllm::pjrt::hlo::ops

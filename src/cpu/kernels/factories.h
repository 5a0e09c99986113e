#pragma once
// One factory per operation that has a kernel; the table is registry.cpp.

#include "cpu/kernel.h"

namespace dllm::cpu {

// Products.
Kernel make_linear(const CompileInfo& info);
Kernel make_linear_input_grad(const CompileInfo& info);
Kernel make_linear_weight_grad(const CompileInfo& info);
Kernel make_expert_linear(const CompileInfo& info);
Kernel make_expert_linear_input_grad(const CompileInfo& info);
Kernel make_expert_linear_weight_grad(const CompileInfo& info);
Kernel make_dot(const CompileInfo& info);
Kernel make_attention(const CompileInfo& info);
Kernel make_attention_grad(const CompileInfo& info);
Kernel make_linear_cross_entropy(const CompileInfo& info);
Kernel make_linear_cross_entropy_grad(const CompileInfo& info);
Kernel make_token_statistics(const CompileInfo& info);

// Rows.
Kernel make_rms_norm(const CompileInfo& info);
Kernel make_rms_norm_grad(const CompileInfo& info);
Kernel make_layer_norm(const CompileInfo& info);
Kernel make_layer_norm_grad(const CompileInfo& info);
Kernel make_rope(const CompileInfo& info);
Kernel make_gated_activation(const CompileInfo& info);
Kernel make_gated_activation_grad(const CompileInfo& info);

// Optimizer.
Kernel make_adamw_update(const CompileInfo& info);
Kernel make_sum_of_squares(const CompileInfo& info);

// Elementwise.
Kernel make_unary(const CompileInfo& info);
Kernel make_binary(const CompileInfo& info);
Kernel make_select(const CompileInfo& info);
Kernel make_clamp(const CompileInfo& info);
Kernel make_convert(const CompileInfo& info);

// Moving and making.
Kernel make_view(const CompileInfo& info);
Kernel make_all_reduce(const CompileInfo& info);
Kernel make_all_gather(const CompileInfo& info);
Kernel make_reduce_scatter(const CompileInfo& info);
Kernel make_all_to_all(const CompileInfo& info);
Kernel make_permute(const CompileInfo& info);
Kernel make_axis_index(const CompileInfo& info);
Kernel make_iota(const CompileInfo& info);
Kernel make_broadcast(const CompileInfo& info);
Kernel make_transpose(const CompileInfo& info);
Kernel make_slice(const CompileInfo& info);
Kernel make_dynamic_slice(const CompileInfo& info);
Kernel make_dynamic_update_slice(const CompileInfo& info);
Kernel make_pad(const CompileInfo& info);
Kernel make_concat(const CompileInfo& info);
Kernel make_reverse(const CompileInfo& info);
Kernel make_random_bits(const CompileInfo& info);

// Along axes, by index.
Kernel make_reduce(const CompileInfo& info);
Kernel make_argmax(const CompileInfo& info);
Kernel make_cumsum(const CompileInfo& info);
Kernel make_top_k(const CompileInfo& info);
Kernel make_sort(const CompileInfo& info);
Kernel make_take(const CompileInfo& info);
Kernel make_take_along(const CompileInfo& info);
Kernel make_scatter_add(const CompileInfo& info);
Kernel make_scatter_set(const CompileInfo& info);

} // namespace dllm::cpu

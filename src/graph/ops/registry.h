#pragma once
// Every file of this folder hands its definitions to the one table in registry.cpp.

#include "graph/op.h"

#include <span>

namespace dllm::graph::ops {

std::span<const OpDef> adamw_update_ops();
std::span<const OpDef> argmax_ops();
std::span<const OpDef> attention_ops();
std::span<const OpDef> attention_grad_ops();
std::span<const OpDef> binary_ops();
std::span<const OpDef> broadcast_ops();
std::span<const OpDef> collective_ops();
std::span<const OpDef> compare_ops();
std::span<const OpDef> concat_ops();
std::span<const OpDef> constant_ops();
std::span<const OpDef> convert_ops();
std::span<const OpDef> cumsum_ops();
std::span<const OpDef> dot_ops();
std::span<const OpDef> dynamic_slice_ops();
std::span<const OpDef> expert_linear_ops();
std::span<const OpDef> gated_activation_ops();
std::span<const OpDef> identity_ops();
std::span<const OpDef> layer_norm_ops();
std::span<const OpDef> linear_ops();
std::span<const OpDef> linear_cross_entropy_ops();
std::span<const OpDef> order_ops();
std::span<const OpDef> pad_ops();
std::span<const OpDef> random_bits_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> reshape_ops();
std::span<const OpDef> reverse_ops();
std::span<const OpDef> rms_norm_ops();
std::span<const OpDef> rope_ops();
std::span<const OpDef> scan_ops();
std::span<const OpDef> scatter_ops();
std::span<const OpDef> select_ops();
std::span<const OpDef> slice_ops();
std::span<const OpDef> sum_of_squares_ops();
std::span<const OpDef> take_ops();
std::span<const OpDef> token_statistics_ops();
std::span<const OpDef> transpose_ops();
std::span<const OpDef> unary_ops();
std::span<const OpDef> while_ops();

} // namespace dllm::graph::ops

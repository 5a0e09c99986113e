// Which kernel runs which operation. scan and while are planned (cpu/loop.h), constants lie where
// they are.

#include "cpu/kernels/factories.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace dllm::cpu {
namespace {

struct Entry {
  std::string_view op;
  KernelFactory make;
};

// Sorted by name.
constexpr Entry kTable[] = {
    {"absolute", make_unary},
    {"adamw_update", make_adamw_update},
    {"add", make_binary},
    {"all_gather", make_all_gather},
    {"all_reduce", make_all_reduce},
    {"all_reduce_max", make_all_reduce},
    {"all_to_all", make_all_to_all},
    {"argmax", make_argmax},
    {"attention", make_attention},
    {"attention_grad", make_attention_grad},
    {"axis_index", make_axis_index},
    {"barrier", make_view},
    {"bitcast", make_view},
    {"broadcast", make_broadcast},
    {"clamp", make_clamp},
    {"concat", make_concat},
    {"convert", make_convert},
    {"cos", make_unary},
    {"cumsum", make_cumsum},
    {"divide", make_binary},
    {"dot", make_dot},
    {"dynamic_slice", make_dynamic_slice},
    {"dynamic_update_slice", make_dynamic_update_slice},
    {"equal", make_binary},
    {"erf", make_unary},
    {"erf_inv", make_unary},
    {"exp", make_unary},
    {"expert_linear", make_expert_linear},
    {"expert_linear_input_grad", make_expert_linear_input_grad},
    {"expert_linear_weight_grad", make_expert_linear_weight_grad},
    {"expm1", make_unary},
    {"floor", make_unary},
    {"gated_activation", make_gated_activation},
    {"gated_activation_grad", make_gated_activation_grad},
    {"greater", make_binary},
    {"greater_equal", make_binary},
    {"iota", make_iota},
    {"is_finite", make_unary},
    {"layer_norm", make_layer_norm},
    {"layer_norm_grad", make_layer_norm_grad},
    {"less", make_binary},
    {"less_equal", make_binary},
    {"linear", make_linear},
    {"linear_cross_entropy", make_linear_cross_entropy},
    {"linear_cross_entropy_grad", make_linear_cross_entropy_grad},
    {"linear_input_grad", make_linear_input_grad},
    {"linear_weight_grad", make_linear_weight_grad},
    {"log", make_unary},
    {"log1p", make_unary},
    {"logical_and", make_binary},
    {"logical_not", make_unary},
    {"logical_or", make_binary},
    {"logical_xor", make_binary},
    {"logistic", make_unary},
    {"max", make_reduce},
    {"maximum", make_binary},
    {"min", make_reduce},
    {"minimum", make_binary},
    {"multiply", make_binary},
    {"negate", make_unary},
    {"not_equal", make_binary},
    {"pad", make_pad},
    {"permute", make_permute},
    {"power", make_binary},
    {"random_bits", make_random_bits},
    {"reduce_scatter", make_reduce_scatter},
    {"remainder", make_binary},
    {"reshape", make_view},
    {"reverse", make_reverse},
    {"rms_norm", make_rms_norm},
    {"rms_norm_grad", make_rms_norm_grad},
    {"rope", make_rope},
    {"round", make_unary},
    {"rsqrt", make_unary},
    {"scatter_add", make_scatter_add},
    {"scatter_set", make_scatter_set},
    {"select", make_select},
    {"shift_left", make_binary},
    {"shift_right_logical", make_binary},
    {"sign", make_unary},
    {"sin", make_unary},
    {"slice", make_slice},
    {"sort", make_sort},
    {"sqrt", make_unary},
    {"stop_gradient", make_view},
    {"subtract", make_binary},
    {"sum", make_reduce},
    {"sum_of_squares", make_sum_of_squares},
    {"take", make_take},
    {"take_along", make_take_along},
    {"tanh", make_unary},
    {"token_statistics", make_token_statistics},
    {"top_k", make_top_k},
    {"transpose", make_transpose},
    {"vary", make_view},
};

} // namespace

KernelFactory find_kernel(std::string_view op) {
  const Entry* found = std::lower_bound(
      std::begin(kTable), std::end(kTable), op,
      [](const Entry& entry, std::string_view wanted) { return entry.op < wanted; });
  return found != std::end(kTable) && found->op == op ? found->make : nullptr;
}

} // namespace dllm::cpu

#include "pjrt/emit/registry.h"

#include "pjrt/emit/ops/ops.h"

#include <algorithm>
#include <iterator>

namespace dllm::pjrt::hlo {
namespace {

struct Entry {
  std::string_view op;
  Emitter emitter;
};

// Sorted by name.
constexpr Entry kTable[] = {
    {"absolute", ops::emit_unary},
    {"add", ops::emit_binary},
    {"all_gather", ops::emit_all_gather},
    {"all_reduce", ops::emit_all_reduce},
    {"all_reduce_max", ops::emit_all_reduce_max},
    {"all_to_all", ops::emit_all_to_all},
    {"argmax", ops::emit_argmax},
    {"axis_index", ops::emit_axis_index},
    {"barrier", ops::emit_barrier},
    {"bitcast", ops::emit_bitcast},
    {"broadcast", ops::emit_broadcast},
    {"clamp", ops::emit_clamp},
    {"concat", ops::emit_concat},
    {"constant", ops::emit_constant},
    {"convert", ops::emit_convert},
    {"cos", ops::emit_unary},
    {"cumsum", ops::emit_cumsum},
    {"divide", ops::emit_divide},
    {"dot", ops::emit_dot},
    {"dynamic_slice", ops::emit_dynamic_slice},
    {"dynamic_update_slice", ops::emit_dynamic_update_slice},
    {"equal", ops::emit_compare},
    {"erf", ops::emit_erf},
    {"erf_inv", ops::emit_erf_inv},
    {"exp", ops::emit_unary},
    {"expm1", ops::emit_unary},
    {"floor", ops::emit_unary},
    {"greater", ops::emit_compare},
    {"greater_equal", ops::emit_compare},
    {"iota", ops::emit_iota},
    {"is_finite", ops::emit_is_finite},
    {"less", ops::emit_compare},
    {"less_equal", ops::emit_compare},
    {"log", ops::emit_unary},
    {"log1p", ops::emit_unary},
    {"logical_and", ops::emit_logical},
    {"logical_not", ops::emit_logical_not},
    {"logical_or", ops::emit_logical},
    {"logical_xor", ops::emit_logical},
    {"logistic", ops::emit_unary},
    {"max", ops::emit_reduce},
    {"maximum", ops::emit_binary},
    {"min", ops::emit_reduce},
    {"minimum", ops::emit_binary},
    {"multiply", ops::emit_binary},
    {"negate", ops::emit_unary},
    {"not_equal", ops::emit_compare},
    {"pad", ops::emit_pad},
    {"permute", ops::emit_permute},
    {"power", ops::emit_binary},
    {"random_bits", ops::emit_random_bits},
    {"reduce_scatter", ops::emit_reduce_scatter},
    {"remainder", ops::emit_remainder},
    {"reshape", ops::emit_reshape},
    {"reverse", ops::emit_reverse},
    {"round", ops::emit_unary},
    {"rsqrt", ops::emit_unary},
    {"scan", ops::emit_scan},
    {"scatter_add", ops::emit_scatter_add},
    {"scatter_set", ops::emit_scatter_set},
    {"select", ops::emit_select},
    {"shift_left", ops::emit_shift},
    {"shift_right_logical", ops::emit_shift},
    {"sign", ops::emit_unary},
    {"sin", ops::emit_unary},
    {"slice", ops::emit_slice},
    {"sort", ops::emit_sort},
    {"sqrt", ops::emit_unary},
    {"stop_gradient", ops::emit_same},
    {"subtract", ops::emit_binary},
    {"sum", ops::emit_reduce},
    {"take", ops::emit_take},
    {"take_along", ops::emit_take_along},
    {"tanh", ops::emit_unary},
    {"top_k", ops::emit_top_k},
    {"transpose", ops::emit_transpose},
    {"vary", ops::emit_same},
    {"while", ops::emit_while},
};

} // namespace

Emitter find_emitter(std::string_view op) {
  const auto* found =
      std::lower_bound(std::begin(kTable), std::end(kTable), op,
                       [](const Entry& e, std::string_view name) { return e.op < name; });
  return found != std::end(kTable) && found->op == op ? found->emitter : nullptr;
}

} // namespace dllm::pjrt::hlo

#include "graph/ops/registry.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace dllm::graph {
namespace {

using Family = std::span<const OpDef> (*)();

constexpr Family kFamilies[] = {
    ops::adamw_update_ops,
    ops::argmax_ops,
    ops::attention_ops,
    ops::attention_grad_ops,
    ops::binary_ops,
    ops::broadcast_ops,
    ops::collective_ops,
    ops::compare_ops,
    ops::concat_ops,
    ops::constant_ops,
    ops::convert_ops,
    ops::cumsum_ops,
    ops::dot_ops,
    ops::dynamic_slice_ops,
    ops::expert_linear_ops,
    ops::gated_activation_ops,
    ops::identity_ops,
    ops::layer_norm_ops,
    ops::linear_ops,
    ops::linear_cross_entropy_ops,
    ops::order_ops,
    ops::pad_ops,
    ops::random_bits_ops,
    ops::reduce_ops,
    ops::reshape_ops,
    ops::reverse_ops,
    ops::rms_norm_ops,
    ops::rope_ops,
    ops::scan_ops,
    ops::scatter_ops,
    ops::select_ops,
    ops::slice_ops,
    ops::sum_of_squares_ops,
    ops::take_ops,
    ops::token_statistics_ops,
    ops::transpose_ops,
    ops::unary_ops,
    ops::while_ops,
};

std::vector<const OpDef*> sorted_table() {
  std::vector<const OpDef*> table;
  for (Family family : kFamilies) {
    for (const OpDef& op : family()) table.push_back(&op);
  }
  std::sort(table.begin(), table.end(),
            [](const OpDef* a, const OpDef* b) { return std::string_view(a->name) < b->name; });
  return table;
}

} // namespace

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> table = sorted_table();
  return table;
}

} // namespace dllm::graph

// Finds the kernel of an operation in the lists of the files of this folder. The operations scan
// and while have no kernels here (cpu/loop.cpp), and constants are read in place.

#include "cpu/kernel.h"

#include <string_view>
#include <unordered_map>

namespace dllm::cpu {

KernelList attention_kernels();
KernelList attention_grad_kernels();
KernelList binary_kernels();
KernelList collective_kernels();
KernelList convert_kernels();
KernelList cross_entropy_with_grad_kernels();
KernelList expert_linear_kernels();
KernelList activation_kernels();
KernelList generate_kernels();
KernelList index_kernels();
KernelList linear_kernels();
KernelList linear_by_row_kernels();
KernelList linear_cross_entropy_kernels();
KernelList movement_kernels();
KernelList norm_kernels();
KernelList optimizer_kernels();
KernelList order_kernels();
KernelList reduce_kernels();
KernelList rope_kernels();
KernelList select_kernels();
KernelList token_statistics_kernels();
KernelList unary_kernels();

namespace {

constexpr KernelList (*kLists[])() = {
    attention_kernels,
    attention_grad_kernels,
    binary_kernels,
    collective_kernels,
    convert_kernels,
    cross_entropy_with_grad_kernels,
    expert_linear_kernels,
    activation_kernels,
    generate_kernels,
    index_kernels,
    linear_kernels,
    linear_by_row_kernels,
    linear_cross_entropy_kernels,
    movement_kernels,
    norm_kernels,
    optimizer_kernels,
    order_kernels,
    reduce_kernels,
    rope_kernels,
    select_kernels,
    token_statistics_kernels,
    unary_kernels,
};

using KernelTable = std::unordered_map<std::string_view, KernelFactory>;

KernelTable table_of_lists() {
  KernelTable table;
  for (const auto list : kLists) {
    for (const KernelEntry& entry : list()) table.emplace(entry.op, entry.make);
  }
  return table;
}

} // namespace

KernelFactory find_kernel(std::string_view op) {
  static const KernelTable table = table_of_lists();
  const auto found = table.find(op);
  return found != table.end() ? found->second : nullptr;
}

} // namespace dllm::cpu

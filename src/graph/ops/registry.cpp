// The table of operations. Every file of this folder has a list; the table joins the lists.

#include "base/error.h"
#include "base/named_table.h"
#include "graph/op.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace dllm::graph {
namespace ops {

using OpList = std::span<const OpDef>;
OpList attention_ops();
OpList binary_ops();
OpList collective_ops();
OpList compare_ops();
OpList constant_ops();
OpList convert_ops();
OpList expert_linear_ops();
OpList activation_ops();
OpList index_ops();
OpList linear_ops();
OpList linear_by_row_ops();
OpList linear_cross_entropy_ops();
OpList norm_ops();
OpList optimizer_ops();
OpList order_ops();
OpList reduce_ops();
OpList ring_attention_ops();
OpList rope_ops();
OpList scan_ops();
OpList shape_ops();
OpList slice_ops();
OpList token_statistics_ops();
OpList unary_ops();
OpList while_ops();

} // namespace ops

namespace {

constexpr ops::OpList (*kLists[])() = {
    ops::attention_ops,      ops::binary_ops,
    ops::collective_ops,     ops::compare_ops,
    ops::constant_ops,       ops::convert_ops,
    ops::expert_linear_ops,  ops::activation_ops,
    ops::index_ops,          ops::linear_ops,
    ops::linear_by_row_ops,  ops::linear_cross_entropy_ops,
    ops::norm_ops,           ops::optimizer_ops,
    ops::order_ops,          ops::reduce_ops,
    ops::ring_attention_ops, ops::rope_ops,
    ops::scan_ops,           ops::shape_ops,
    ops::slice_ops,          ops::token_statistics_ops,
    ops::unary_ops,          ops::while_ops,
};

std::vector<const OpDef*> sorted_table() {
  std::vector<const OpDef*> table;
  for (const auto list : kLists) {
    for (const OpDef& op : list()) table.push_back(&op);
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

const OpDef& find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it =
      std::lower_bound(ops.begin(), ops.end(), name, [](const OpDef* op, std::string_view wanted) {
        return std::string_view(op->name) < wanted;
      });
  if (it != ops.end() && (*it)->name == name) return **it;
  fail_unnamed({"operation"}, name, names_of(ops, &OpDef::name));
}

void fail_op(const OpCall& call, const std::string& what) {
  fail(Code::invalid_argument, "[{}] {}", call.op.name, what);
}

} // namespace dllm::graph

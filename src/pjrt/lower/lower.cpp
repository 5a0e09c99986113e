#include "pjrt/lower/lower.h"

#include "graph/op.h"
#include "graph/passes.h"
#include "pjrt/lower/lowerings.h"

#include <string_view>

namespace dllm::pjrt {
namespace {

struct Lowering {
  std::string_view op;
  graph::Definition definition;
};

constexpr Lowering kLowerings[] = {
    {"attention", lower_attention},
    {"attention_grad", lower_attention_grad},
    {"expert_linear", lower_expert_linear},
    {"expert_linear_input_grad", lower_expert_linear_input_grad},
    {"expert_linear_weight_grad", lower_expert_linear_weight_grad},
    {"linear", lower_linear},
    {"linear_cross_entropy", lower_linear_cross_entropy},
    {"linear_cross_entropy_grad", lower_linear_cross_entropy_grad},
    {"linear_input_grad", lower_linear_input_grad},
    {"token_statistics", lower_token_statistics},
};

graph::Definition definition_of(const graph::OpDef& op) {
  for (const Lowering& lowering : kLowerings) {
    if (lowering.op == op.name) return lowering.definition;
  }
  return op.decompose;
}

} // namespace

std::shared_ptr<const graph::Graph> lower(const graph::Graph& source) {
  return graph::simplify(*graph::decompose(source, definition_of));
}

} // namespace dllm::pjrt

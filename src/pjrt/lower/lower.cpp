// Fused operations as primitives: what compilers fuse by themselves is left to them, nothing large is ever whole.

#include "pjrt/lower/lower.h"

#include "graph/op.h"
#include "graph/ops/build.h"
#include "graph/passes.h"

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

// linear and its input gradient: one product of flat rows; a narrow weight is widened right at the
// product and its scale goes to the smaller side, so that no wide matrix has to be stored.
// (linear_weight_grad is one product by its definition.)

using graph::Value;
using namespace graph::ops;

Results lower_linear(graph::Graph&, const graph::Node& node, Operands inputs) {
  OperandOrder order(2);
  const int bias = order.take(node.attributes.flag("has_bias"));
  const int scale = order.take(node.attributes.flag("has_scale"));
  const Value x = inputs[0], weight = widen_weight(inputs[1], {});
  Value y = dot(as_rows(x), transpose(weight, {1, 0}));
  if (scale >= 0) y = multiply(y, inputs[static_cast<size_t>(scale)]);
  if (bias >= 0) y = add(y, inputs[static_cast<size_t>(bias)]);
  return {reshape(y, x.shape().with_dim(-1, weight.dim(0)))};
}

Results lower_linear_input_grad(graph::Graph&, const graph::Node& node, Operands inputs) {
  const Value weight = widen_weight(inputs[1], {});
  Value dy = as_rows(inputs[0]);
  if (node.attributes.flag("has_scale")) dy = multiply(dy, inputs[2]);
  return {reshape(dot(dy, weight), inputs[0].shape().with_dim(-1, weight.dim(1)))};
}

} // namespace dllm::pjrt

// concat: parts joined along one axis.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  const int64_t axis = call.attributes.integer("axis");
  const ValueType& first = call.inputs[0];
  int64_t extent = 0;
  for (const ValueType& part : call.inputs) {
    const bool fits = part.dtype == first.dtype && part.shape.rank() == first.shape.rank() &&
                      part.shape.without(axis) == first.shape.without(axis);
    if (!fits) {
      fail_op(call, fmt::format("{} do not join along axis {}", types_text(call.inputs), axis));
    }
    extent += part.shape.dim(axis);
  }
  return {{first.shape.with_dim(axis, extent), first.dtype, {}}};
}

std::vector<Value> vjp(const VjpCall& call) {
  const int64_t axis = call.node.attributes.integer("axis");
  std::vector<Value> grads;
  int64_t begin = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const int64_t extent = call.inputs[i].dim(axis);
    grads.push_back(call.wanted[i] ? slice_axis(call.grads[0], axis, begin, begin + extent)
                                   : Value{});
    begin += extent;
  }
  return grads;
}

constexpr OpDef kOps[] = {{.name = "concat", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> concat_ops() {
  return kOps;
}
} // namespace ops

Value concat(const std::vector<Value>& parts, int64_t axis) {
  if (parts.empty()) fail(Code::invalid_argument, "[concat] has no parts");
  return apply("concat", parts, {{"axis", normal_axis("concat", parts[0].shape(), axis)}});
}

} // namespace dllm::graph

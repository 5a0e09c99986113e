#include "cpu/loop.h"

#include "cpu/memory.h"
#include "graph/op.h"

#include <algorithm>
#include <string_view>

namespace dllm::cpu {
namespace {

// Carried values may be written in place; the other operands belong to the frame around the loop.
Frame plan_body(const CompileInfo& info, std::shared_ptr<const graph::Graph> graph,
                const Loop& loop, bool carries) {
  FrameRequest request{std::move(graph), info.threads, {}, {}, info.place};
  for (size_t i = 0; i < request.graph->inputs().size(); ++i) {
    // Inputs of cond are state and consts; a loop has per-layer operands only when it is a scan.
    request.keeps_forms.push_back(static_cast<int64_t>(i) >= loop.carry && info.keeps_forms[i]);
  }
  for (size_t o = 0; o < request.graph->outputs().size(); ++o) {
    request.donations.push_back(
        carries && static_cast<int64_t>(o) < loop.carry ? static_cast<int32_t>(o) : -1);
  }
  return plan_frame(request);
}

} // namespace

Loop plan_loop(const CompileInfo& info) {
  const graph::Node& node = info.node;
  Loop loop;
  loop.is_while = std::string_view(node.op->name) == "while";
  loop.consts = node.attributes.integer("consts");
  if (loop.is_while) {
    loop.carry = node.attributes.integer("state");
    loop.cond = plan_body(info, node.bodies[0], loop, false);
    loop.body = plan_body(info, node.bodies[1], loop, true);
  } else {
    loop.carry = node.attributes.integer("carry");
    loop.per_layer = node.attributes.integer("per_layer");
    loop.begin = node.attributes.integer("begin");
    loop.end = node.attributes.integer("end");
    loop.reverse = node.attributes.flag("reverse");
    loop.body = plan_body(info, node.bodies[0], loop, true);
  }
  int64_t size = std::max(loop.body.arena_bytes, loop.cond.arena_bytes);
  for (int64_t c = 0; c < loop.carry; ++c) {
    const graph::ValueType& type = info.input(static_cast<size_t>(c));
    const int64_t bytes = type.shape.count() * dtype_size(type.dtype);
    const bool in_place = loop.body.takes_over[static_cast<size_t>(c)] == c;
    loop.carry_bytes.push_back(bytes);
    loop.spare.push_back(in_place ? -1 : size);
    if (!in_place) size += align_up(bytes);
  }
  loop.scratch_bytes = size;
  return loop;
}

Kernel loop_kernel(const Loop& loop) {
  Kernel kernel;
  kernel.scratch_bytes = loop.scratch_bytes;
  for (size_t i = 0; i < loop.body.input_forms.size(); ++i) {
    FormSet forms = loop.body.input_forms[i];
    if (loop.is_while) forms |= loop.cond.input_forms[i];
    kernel.wants.push_back(static_cast<int64_t>(i) < loop.carry ? FormSet{kPlain} : forms);
  }
  for (int64_t c = 0; c < loop.carry; ++c) kernel.may_overwrite.push_back(static_cast<int>(c));
  return kernel;
}

} // namespace dllm::cpu

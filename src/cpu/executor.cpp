#include "cpu/program.h"

#include "base/error.h"
#include "graph/op.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <string_view>

namespace dllm::cpu {
namespace {

// Returns the index of the first element that is not finite, or -1.
int64_t first_non_finite(const float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if ((std::bit_cast<uint32_t>(x[i]) & 0x7F800000u) == 0x7F800000u) return i;
  }
  return -1;
}

// Returns the index of the first NaN or +infinity, or -1.
int64_t first_overflow(const float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!(x[i] < std::numeric_limits<float>::infinity())) return i;
  }
  return -1;
}

// Returns true for outputs that may contain -infinity, the score of a hidden key. Operations that
// only move or choose numbers pass it on. The log-sum-exp of a query that sees no key is -infinity
// too. The results of a loop are not checked for it, because the nodes of its body are checked.
bool may_be_minus_infinity(const graph::Node& node, size_t output) {
  constexpr std::string_view kMoves[] = {
      "broadcast", "concat",    "dynamic_slice", "dynamic_update_slice",
      "max",       "maximum",   "min",           "minimum",
      "pad",       "reverse",   "scan",          "select",
      "slice",     "sort",      "take",          "take_along",
      "top_k",     "transpose", "while"};
  const std::string_view name = node.op->name;
  return (name == "attention" && output == 1) ||
         std::find(std::begin(kMoves), std::end(kMoves), name) != std::end(kMoves);
}

void check_results(const Frame& frame, const Step& step, const Operand* outputs) {
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    const graph::ValueType& type = frame.graph->type(step.outputs[o]);
    if (type.dtype != DType::f32) continue;
    const graph::Node& node = frame.graph->nodes()[static_cast<size_t>(step.node)];
    int64_t (*const find)(const float*, int64_t) =
        may_be_minus_infinity(node, o) ? first_overflow : first_non_finite;
    const int64_t at = find(outputs[o].in<float>(), type.shape.count());
    if (at < 0) continue;
    fail_with_hint("look at its operands, or run with check = none", Code::failed_precondition,
                   "[{}] node {} of graph {} made {} at element {} of result {} {}", node.op->name,
                   step.node, frame.graph->name(), outputs[o].in<float>()[at], at, o, type.text());
  }
}

void find_in_results(const Frame& frame, const Step& step, const Operand* outputs,
                     const RunContext& context) {
  for (size_t o = 0; o < step.outputs.size() && context.finding->empty(); ++o) {
    const graph::ValueType& type = frame.graph->type(step.outputs[o]);
    if (type.dtype != DType::f32) continue;
    const int64_t at = first_overflow(outputs[o].in<float>(), type.shape.count());
    if (at < 0) continue;
    const graph::Node& node = frame.graph->nodes()[static_cast<size_t>(step.node)];
    const std::string where = context.index < 0 ? "" : fmt::format(" at layer {}", context.index);
    *context.finding = fmt::format("[{}] node {} of graph {}{} made {} at element {} of {}",
                                   node.op->name, step.node, frame.graph->name(), where,
                                   outputs[o].in<float>()[at], at, type.text());
  }
}

} // namespace

FrameRun::FrameRun(const Frame& frame, std::byte* arena)
    : frame_(frame), arena_(arena), values_(frame.places.size()), operands_(frame.most_operands) {
  for (size_t v = 0; v < values_.size(); ++v) {
    const Place& place = frame_.places[v];
    if (place.kind == Place::kArena) values_[v].data = arena_ + place.offset;
    if (place.kind == Place::kConstant) {
      const graph::Node& node = frame_.graph->nodes()[static_cast<size_t>(place.index)];
      values_[v].data = const_cast<std::byte*>(node.literal.bytes());
    }
  }
}

void FrameRun::resolve(std::span<const Operand> inputs, std::span<const Operand> outputs) {
  for (size_t v = 0; v < values_.size(); ++v) {
    const Place& place = frame_.places[v];
    if (place.kind == Place::kInput) values_[v] = inputs[static_cast<size_t>(place.index)];
    if (place.kind == Place::kOutput) values_[v] = outputs[static_cast<size_t>(place.index)];
  }
  for (size_t v = 0; v < values_.size(); ++v) {
    const auto source = static_cast<size_t>(frame_.source[v]);
    if (source != v) values_[v] = values_[source];
  }
}

void FrameRun::run_step(const Step& step, const RunContext& context) {
  size_t count = 0;
  for (int32_t v : step.inputs) operands_[count++] = values_[static_cast<size_t>(v)];
  for (int32_t v : step.outputs) operands_[count++] = values_[static_cast<size_t>(v)];
  const Operand* outputs = operands_.data() + step.inputs.size();
  const KernelCall call{
      operands_.data(),     outputs,      arena_ + step.scratch_offset, context.pool,
      context.communicator, context.pause};
  if (step.loop != nullptr) {
    run_loop(*step.loop, frame_.graph->nodes()[static_cast<size_t>(step.node)], call, context);
  } else {
    step.kernel.run(call);
  }
  if (context.check_finite) check_results(frame_, step, outputs);
  if (context.finding != nullptr && step.loop == nullptr)
    find_in_results(frame_, step, outputs, context);
}

void FrameRun::run(std::span<const Operand> inputs, std::span<const Operand> outputs,
                   const RunContext& context, int32_t* step, int32_t stops_before) {
  resolve(inputs, outputs);
  RunContext current = context;
  for (size_t s = 0; s < frame_.steps.size(); ++s) {
    if (static_cast<int32_t>(s) == stops_before) {
      if (context.communicator != nullptr)
        context.communicator->barrier(context.all_ranks, current.pool.task);
      current.pool.task = nullptr;
      current.pause = nullptr;
    }
    current.pool.check();
    if (current.pause != nullptr) current.pause->look();
    if (step != nullptr) *step = static_cast<int32_t>(s);
    run_step(frame_.steps[s], current);
  }
  for (const Copy& copy : frame_.copies) {
    const Operand& to = outputs[static_cast<size_t>(copy.output)];
    copy_in_pieces(to.data, values_[static_cast<size_t>(copy.value)].data, copy.bytes,
                   current.pool.task);
  }
}

} // namespace dllm::cpu

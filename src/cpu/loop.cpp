// Plans scan and while, and runs them as one step of a frame.

#include "base/error.h"
#include "cpu/buffer.h"
#include "cpu/memory.h"
#include "cpu/plan.h"
#include "cpu/program.h"
#include "graph/op.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace dllm::cpu {

namespace {

// Plans a graph of the loop. With `carries` true the carried values may be written in place. The
// other operands belong to the frame around the loop and are not written.
Frame plan_body(const CompileInfo& info, std::shared_ptr<const graph::Graph> graph,
                const Loop& loop, bool carries) {
  FrameRequest request{std::move(graph), info.threads,    {},        {}, {},
                       info.place,       info.arithmetic, info.fuses};
  for (size_t i = 0; i < request.graph->inputs().size(); ++i) {
    // `cond` has the inputs state and consts. Only a scan has per-layer operands.
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

namespace {

// The carried values of a loop: the memory that holds them now, and the memory that the next step
// writes.
class Carries {
public:
  Carries(const Loop& loop, const KernelCall& call) : loop_(loop), call_(call) {
    now_.assign(call.inputs, call.inputs + loop.carry);
    next_.resize(now_.size());
    for (size_t c = 0; c < now_.size(); ++c) {
      // The body works in place, so the start value is copied to the result.
      if (loop_.spare[c] < 0) move_to(c, call.outputs[c].data);
    }
  }

  // Chooses the memory that the next step writes. steps_left counts that step too, so that the last
  // step writes into the result. It is 0 when the number of steps is not known.
  void place_next(int64_t steps_left) {
    for (size_t c = 0; c < now_.size(); ++c) {
      std::byte* result = call_.outputs[c].data;
      if (loop_.spare[c] < 0) {
        next_[c].data = result;
        continue;
      }
      std::byte* spare = call_.scratch + loop_.spare[c];
      const bool to_result =
          now_[c].data == spare || (now_[c].data != result && steps_left % 2 != 0);
      next_[c].data = to_result ? result : spare;
    }
  }
  void advance() { now_ = next_; }
  void finish() {
    for (size_t c = 0; c < now_.size(); ++c) move_to(c, call_.outputs[c].data);
  }

  const std::vector<Operand>& now() const { return now_; }
  const std::vector<Operand>& next() const { return next_; }

private:
  void move_to(size_t c, std::byte* to) {
    if (now_[c].data != to) copy_in_pieces(to, now_[c].data, loop_.carry_bytes[c], call_.pool.task);
    now_[c] = Operand{};
    now_[c].data = to;
  }

  const Loop& loop_;
  const KernelCall& call_;
  std::vector<Operand> now_, next_;
};

// Returns the operand of element `index` of a stacked array. `element` is the type of one element.
Operand element_at(const Operand& stacked, const graph::ValueType& element, int64_t index,
                   Arithmetic arithmetic) {
  Operand operand;
  const auto part = [&](auto* base, Form form) {
    return base == nullptr ? base : base + index * form_bytes(element, arithmetic, form);
  };
  operand.data = part(stacked.data, kPlain);
  if (has_forms(element.shape, element.dtype)) {
    operand.packed = part(stacked.packed, kPacked);
    operand.packed_transposed = part(stacked.packed_transposed, kPackedTransposed);
  }
  return operand;
}

void zero_rows(const Operand& stacked, int64_t row_bytes, int64_t begin, int64_t end,
               const Task* task) {
  in_pieces((end - begin) * row_bytes, int64_t{1} << 20, task, [&](int64_t from, int64_t to) {
    std::memset(stacked.data + begin * row_bytes + from, 0, static_cast<size_t>(to - from));
  });
}

void run_scan(const Loop& loop, const graph::Node& node, const KernelCall& call,
              const RunContext& context) {
  const graph::Graph& body = *loop.body.graph;
  const auto carry = static_cast<size_t>(loop.carry),
             per_layer = static_cast<size_t>(loop.per_layer);
  const size_t results = body.outputs().size();
  const int64_t count = node.attributes.integer("count");
  for (size_t o = carry; o < results; ++o) {
    const graph::ValueType& row = body.type(body.outputs()[o].value);
    const int64_t bytes = form_bytes(row, kArithmeticF32, kPlain);
    zero_rows(call.outputs[o], bytes, 0, loop.begin, call.pool.task);
    zero_rows(call.outputs[o], bytes, loop.end, count, call.pool.task);
  }
  Carries carries(loop, call);
  FrameRun run(loop.body, call.scratch + loop.frame_offset);
  std::vector<Operand> inputs(call.inputs, call.inputs + body.inputs().size());
  std::vector<Operand> outputs(results);
  for (int64_t left = loop.end - loop.begin; left > 0; --left) {
    const int64_t index = loop.reverse ? loop.begin + left - 1 : loop.end - left;
    carries.place_next(left);
    for (size_t c = 0; c < carry; ++c) {
      inputs[c] = carries.now()[c];
      outputs[c] = carries.next()[c];
    }
    for (size_t i = carry; i < carry + per_layer; ++i) {
      inputs[i] = element_at(call.inputs[i], body.type(body.inputs()[i].value), index,
                             loop.body.arithmetic);
    }
    for (size_t o = carry; o < results; ++o) {
      outputs[o] = element_at(call.outputs[o], body.type(body.outputs()[o].value), index,
                              loop.body.arithmetic);
    }
    RunContext at_element = context;
    at_element.index = index;
    run.run(inputs, outputs, at_element);
    carries.advance();
  }
  carries.finish();
}

void run_while(const Loop& loop, const KernelCall& call, const RunContext& context) {
  Carries carries(loop, call);
  FrameRun cond(loop.cond, call.scratch + loop.frame_offset);
  FrameRun body(loop.body, call.scratch + loop.frame_offset);
  const auto state = static_cast<size_t>(loop.carry);
  std::vector<Operand> inputs(call.inputs, call.inputs + loop.body.graph->inputs().size());
  for (;;) {
    for (size_t c = 0; c < state; ++c) inputs[c] = carries.now()[c];
    alignas(kAlignment) std::byte go_on[kAlignment] = {};
    Operand answer;
    answer.data = go_on;
    cond.run(inputs, {&answer, 1}, context);
    context.pool.check();
    if (go_on[0] == std::byte{0}) break;
    carries.place_next(0);
    body.run(inputs, carries.next(), context);
    carries.advance();
  }
  carries.finish();
}

} // namespace

void run_loop(const Loop& loop, const graph::Node& node, const KernelCall& call,
              const RunContext& context) {
  if (loop.is_while) {
    run_while(loop, call, context);
  } else {
    run_scan(loop, node, call, context);
  }
}

} // namespace dllm::cpu

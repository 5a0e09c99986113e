#include "cpu/program.h"

#include "base/error.h"
#include "base/number.h"
#include "cpu/gemm/gemm.h"
#include "cpu/memory.h"
#include "graph/engine.h"
#include "graph/op.h"
#include "graph/passes.h"

#include <cstring>
#include <new>
#include <numeric>

namespace dllm::cpu {
namespace {

using graph::BufferRef;

// Replaces fused operations that have no kernel by their definitions, and simplifies the graph.
std::shared_ptr<const graph::Graph> lower(const graph::Graph& source) {
  std::vector<std::string> kept;
  for (const graph::OpDef* op : graph::all_ops()) {
    if (find_kernel(op->name) != nullptr || op->decompose == nullptr) kept.emplace_back(op->name);
  }
  const std::shared_ptr<graph::Graph> plain = graph::decompose(source, kept);
  std::shared_ptr<graph::Graph> simple = graph::simplify(*plain);
  return graph::join_loss_gradients(graph::join_pads(std::move(simple)));
}

Frame plan_source(const graph::Graph& source, int threads, const graph::Placement& place,
                  Arithmetic arithmetic, bool fuses) {
  FrameRequest request{lower(source), threads, {}, {}, {}, place, arithmetic, fuses};
  std::vector<bool> donated(source.inputs().size(), false);
  for (const graph::GraphOutput& output : source.outputs()) {
    request.donations.push_back(output.donated_input);
    request.brief.push_back(output.is_brief);
    if (output.donated_input >= 0) donated[static_cast<size_t>(output.donated_input)] = true;
  }
  // A donated parameter changes in every run, so packed forms that outlive the run are useless for
  // it.
  for (size_t i = 0; i < source.inputs().size(); ++i) {
    request.keeps_forms.push_back(source.inputs()[i].is_parameter && !donated[i]);
  }
  return plan_frame(request);
}

int64_t type_bytes(const graph::ValueType& type) {
  return type.shape.count() * dtype_size(type.dtype);
}

CpuBuffer& cpu_buffer(const BufferRef& buffer, const std::string& name) {
  auto* mine = dynamic_cast<CpuBuffer*>(buffer.get());
  if (mine == nullptr) fail(Code::invalid_argument, "input {} belongs to another engine", name);
  return *mine;
}

// Returns true if the buffer has no other holder. The count alone does not order memory accesses.
// Another thread may have read the numbers just before it released the buffer. Releasing a copy
// here orders this thread after the reads.
bool is_sole(const BufferRef& buffer) {
  if (buffer.use_count() != 1) return false;
  BufferRef(buffer).reset();
  return true;
}

} // namespace

CpuProgram::CpuProgram(std::shared_ptr<EngineState> state,
                       std::shared_ptr<const graph::Graph> source, const graph::Placement& place,
                       bool fuses)
    : state_(std::move(state)), source_(std::move(source)), place_(place),
      fuses_(fuses && !state_->check_finite()),
      communicator_(place.is_single() ? nullptr : state_->communicator()),
      all_ranks_(static_cast<size_t>(place.mesh.ranks())),
      frame_(
          plan_source(*source_, state_->pool()->threads(), place, state_->arithmetic(), fuses_)) {
  std::iota(all_ranks_.begin(), all_ranks_.end(), 0);
  fill_report();
  const int64_t limit = state_->ledger()->limit();
  if (limit != 0 && report_.peak_bytes > limit) {
    fail_with_hint("use a smaller batch or a shorter sequence, or raise memory_limit",
                   Code::resource_exhausted,
                   "graph {} needs {} at its peak, the engine's limit is {}", source_->name(),
                   memory_text(static_cast<double>(report_.peak_bytes)),
                   memory_text(static_cast<double>(limit)));
  }
}

void CpuProgram::fill_report() {
  const graph::Graph& planned = *frame_.graph;
  for (size_t i = 0; i < planned.inputs().size(); ++i) {
    const graph::ValueType& type = planned.type(planned.inputs()[i].value);
    for (Form form : {kPlain, kPacked, kPackedTransposed}) {
      if ((frame_.input_forms[i] & form) != 0)
        report_.input_bytes += form_bytes(type, frame_.arithmetic, form);
    }
    const bool rounded = planned.inputs()[i].is_parameter &&
                         (frame_.input_forms[i] & kPlain) == 0 &&
                         keeps_plain(type, frame_.arithmetic);
    if (frame_.input_forms[i] == 0 || rounded) report_.input_bytes += type_bytes(type);
  }
  for (size_t o = 0; o < planned.outputs().size(); ++o) {
    if (frame_.takes_over[o] < 0 && !frame_.in_arena[o])
      report_.output_bytes += type_bytes(planned.type(planned.outputs()[o].value));
  }
  report_.constant_bytes = frame_.constant_bytes;
  report_.arena_bytes = frame_.arena_bytes;
  report_.peak_bytes =
      report_.input_bytes + report_.output_bytes + report_.constant_bytes + report_.arena_bytes;
  report_.flops = graph::count_flops(planned);
}

void CpuProgram::check_inputs(std::span<const BufferRef> inputs) const {
  const auto& wanted = source_->inputs();
  if (inputs.size() != wanted.size()) {
    fail(Code::invalid_argument, "graph {} has {} inputs, {} were given", source_->name(),
         wanted.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const graph::ValueType& type = source_->type(wanted[i].value);
    if (inputs[i] == nullptr)
      fail(Code::invalid_argument, "input {} of graph {} is missing", wanted[i].name,
           source_->name());
    if (inputs[i]->dtype() != type.dtype || !(inputs[i]->shape() == type.shape)) {
      fail(Code::invalid_argument, "input {} of graph {} is {}, the given array is {}{}",
           wanted[i].name, source_->name(), type.text(), dtype_name(inputs[i]->dtype()),
           inputs[i]->shape().text());
    }
    const graph::AxisSet cut = inputs[i]->layout().axes();
    if (communicator_ != nullptr && !type.axes.contains(cut)) {
      fail(Code::invalid_argument,
           "input {} of graph {} is {}, the given array is a part with layout {}", wanted[i].name,
           source_->name(), type.text(), inputs[i]->layout().text());
    }
  }
}

// Gets the wanted forms of all inputs. This comes first because it may fail for lack of memory, and
// no input is written yet.
void CpuProgram::bind_inputs(Binding& binding, const Workers& pool) const {
  for (size_t i = 0; i < binding.inputs.size(); ++i) {
    binding.in.push_back(buffer_at(binding, i).operand(frame_.input_forms[i], pool));
  }
}

CpuBuffer& CpuProgram::buffer_at(const Binding& binding, size_t input) const {
  return cpu_buffer(binding.inputs[input], source_->inputs()[input].name);
}

// Returns the storage of one output, or null if it stays in the arena. An output that takes over an
// input gets the input's storage, or a copy of it when the input has another holder. Other outputs
// get a new block.
std::shared_ptr<Block> CpuProgram::output_block(Binding& binding, size_t output,
                                                const Workers& pool) const {
  const int64_t bytes = type_bytes(frame_.graph->type(frame_.graph->outputs()[output].value));
  if (frame_.in_arena[output]) return nullptr;
  if (frame_.takes_over[output] < 0)
    return std::make_shared<Block>(state_->ledger(), bytes, "an output", BlockUse::run);
  const auto donor = static_cast<size_t>(frame_.takes_over[output]);
  CpuBuffer& given = buffer_at(binding, donor);
  std::shared_ptr<Block> block = is_sole(binding.inputs[donor]) ? given.writable_block() : nullptr;
  if (block != nullptr) {
    binding.overwrites = true;
  } else {
    block = std::make_shared<Block>(state_->ledger(), bytes, "a copy of a donated input",
                                    BlockUse::run);
    copy_in_pieces(block->data(), given.operand(kPlain, pool).data, bytes, pool.task);
  }
  binding.in[donor].data = block->data();
  return block;
}

void CpuProgram::bind_outputs(Binding& binding, const Workers& pool) const {
  for (size_t o = 0; o < frame_.takes_over.size(); ++o) {
    binding.blocks.push_back(output_block(binding, o, pool));
    binding.out.push_back({});
    if (!frame_.in_arena[o]) binding.out.back().data = binding.blocks.back()->data();
  }
}

// Throws StateLost after an error in a run that has begun to overwrite its inputs, and releases
// these inputs. An input with another holder was copied, so it stays valid and may be in use.
void CpuProgram::fail_run(const Binding& binding, const Error& error) const {
  for (int32_t donor : frame_.takes_over) {
    if (donor < 0 || binding.inputs[static_cast<size_t>(donor)].use_count() != 1) continue;
    buffer_at(binding, static_cast<size_t>(donor)).donate(nullptr);
  }
  throw graph::StateLost(error.code(), error.text(), "donated inputs were half written");
}

// Returns an arena, which goes back to the store when its last holder releases it. An output in the
// arena may be the last holder, also after the end of the engine.
std::shared_ptr<Block> CpuProgram::take_arena() const {
  std::unique_ptr<Block> arena = state_->arenas().take(frame_.arena_bytes);
  return {arena.release(), [engine = std::weak_ptr<EngineState>(state_)](Block* given) {
            std::unique_ptr<Block> idle(given);
            if (const auto state = engine.lock()) state->arenas().give(std::move(idle));
          }};
}

std::vector<BufferRef> CpuProgram::execute(Binding& binding, const RunContext& context,
                                           graph::StopRule rule, RunGate::Pass& pass) const {
  const std::shared_ptr<const Block> arena = take_arena();
  pass.has_allocated();
  int32_t step = -1;
  // One rank may overwrite an input that another rank copies. All ranks meet in both cases.
  const bool keeps =
      rule == graph::StopRule::before_overwrite && (binding.overwrites || communicator_ != nullptr);
  const int32_t stops_before = keeps ? frame_.first_overwrite : INT32_MAX;
  const auto has_written = [&] { return binding.overwrites && step >= frame_.first_overwrite; };
  try {
    FrameRun(frame_, arena->data()).run(binding.in, binding.out, context, &step, stops_before);
    keep_in_arena(binding, arena);
    return results(binding);
  } catch (const Error& error) {
    if (!has_written()) throw;
    fail_run(binding, error);
  } catch (const std::bad_alloc&) {
    if (!has_written()) throw;
    fail_run(binding, Error(Code::resource_exhausted, "out of memory"));
  } catch (const std::exception& error) {
    if (!has_written()) throw;
    fail_run(binding, Error(Code::internal, error.what()));
  }
}

// Makes the blocks of the outputs that stay in the arena.
void CpuProgram::keep_in_arena(Binding& binding, const std::shared_ptr<const Block>& arena) const {
  const graph::Graph& planned = *frame_.graph;
  for (size_t o = 0; o < planned.outputs().size(); ++o) {
    if (!frame_.in_arena[o]) continue;
    const int32_t value = planned.outputs()[o].value;
    const int32_t root = frame_.source[static_cast<size_t>(value)];
    const int64_t offset = frame_.places[static_cast<size_t>(root)].offset;
    binding.blocks[o] = std::make_shared<Block>(arena, offset, type_bytes(planned.type(value)));
  }
}

// Makes the buffers of the outputs. Donated inputs are released only when all outputs exist.
std::vector<BufferRef> CpuProgram::results(Binding& binding) const {
  std::vector<std::shared_ptr<CpuBuffer>> buffers;
  std::vector<BufferRef> made(binding.blocks.size());
  for (size_t o = 0; o < binding.blocks.size(); ++o) {
    const graph::ValueType& type = frame_.graph->type(frame_.graph->outputs()[o].value);
    buffers.push_back(std::make_shared<CpuBuffer>(state_->ledger(), type.dtype, type.shape,
                                                  binding.blocks[o], nullptr,
                                                  state_->arithmetic()));
  }
  for (size_t o = 0; o < buffers.size(); ++o) {
    binding.blocks[o].reset();
    const int32_t donor = source_->outputs()[o].donated_input;
    if (donor >= 0) buffers[o]->set_layout(binding.inputs[static_cast<size_t>(donor)]->layout());
    if (donor >= 0 && binding.inputs[static_cast<size_t>(donor)].use_count() == 1) {
      buffer_at(binding, static_cast<size_t>(donor)).donate(buffers[o].get());
    }
    made[o] = std::move(buffers[o]);
  }
  return made;
}

template <class F> auto CpuProgram::with_other_ranks(const Task* task, F&& work) const {
  if (communicator_ == nullptr) return work();
  try {
    state_->begin_run(task);
    auto results = work();
    state_->end_run();
    return results;
  } catch (const Error& error) {
    state_->fail_run(error);
    throw;
  } catch (const std::exception& error) {
    state_->fail_run(Error(Code::internal, error.what()));
    throw;
  } catch (...) {
    state_->fail_run(Error(Code::internal, "an unknown exception"));
    throw;
  }
}

namespace {

// Pauses a run at the pause point of its task. During the pause the gate does not count the run.
class GatedPause final : public RunPause {
public:
  GatedPause(PausePoint& point, RunGate::Pass& pass, const Task* task)
      : point_(point), pass_(pass), task_(task) {}

  void look() override {
    if (!point_.is_due()) return;
    pass_.pause();
    point_.pause();
    pass_.resume();
    check_task(task_);
  }

private:
  PausePoint& point_;
  RunGate::Pass& pass_;
  const Task* task_;
};

} // namespace

std::vector<BufferRef> CpuProgram::run_bound(std::span<const BufferRef> inputs, RunContext context,
                                             graph::StopRule rule) const {
  check_task(context.pool.task);
  check_inputs(inputs);
  context.communicator = communicator_;
  context.all_ranks = all_ranks_;
  RunGate::Pass pass = state_->gate().enter(report_.output_bytes + report_.arena_bytes,
                                            communicator_ == nullptr, context.pool.task);
  Binding binding{inputs, {}, {}, {}};
  bind_inputs(binding, context.pool);
  bind_outputs(binding, context.pool);
  PausePoint* const point =
      context.pool.task == nullptr ? nullptr : context.pool.task->pause_point();
  if (point == nullptr || communicator_ != nullptr) return execute(binding, context, rule, pass);
  GatedPause pause(*point, pass, context.pool.task);
  context.pause = &pause;
  return execute(binding, context, rule, pass);
}

std::vector<BufferRef> CpuProgram::run(std::span<const BufferRef> inputs, const Task* task,
                                       graph::StopRule rule) {
  const std::shared_ptr<ThreadPool> pool = state_->pool();
  RunContext context{Workers(pool.get(), task), state_->check_finite()};
  return with_other_ranks(task, [&] { return run_bound(inputs, context, rule); });
}

std::string CpuProgram::find_non_finite(std::span<const BufferRef> inputs, const Task* task) {
  if (fuses_) return CpuProgram(state_, source_, place_, false).find_non_finite(inputs, task);
  const std::shared_ptr<ThreadPool> pool = state_->pool();
  std::string finding;
  RunContext context{Workers(pool.get(), task)};
  context.finding = &finding;
  with_other_ranks(task, [&] { return run_bound(inputs, context, graph::StopRule::anywhere); });
  return finding;
}

} // namespace dllm::cpu

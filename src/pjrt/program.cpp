// A graph compiled by a plugin, its report, and the arrays it reads and makes.

#include "pjrt/engine_state.h"

#include "base/error.h"
#include "graph/passes.h"
#include "pjrt/lower/lower.h"
#include "pjrt/plugin/compile.h"

#include <new>

namespace dllm::pjrt {

using graph::BufferRef;

PjrtProgram::PjrtProgram(std::shared_ptr<EngineState> state,
                         std::shared_ptr<const graph::Graph> source)
    : state_(std::move(state)), source_(std::move(source)),
      donated_(source_->inputs().size(), false) {
  for (const graph::GraphOutput& output : source_->outputs()) {
    if (output.donated_input >= 0) donated_[static_cast<size_t>(output.donated_input)] = true;
  }
  const Built built = state_->build(emitted());
  executable_ = built.executable;
  check_results();
  report_ = make_report(*source_, built, state_->device());
  check_aliases(*source_, report_.compiled);
}

std::string PjrtProgram::emitted() const {
  return emit(*lower(*source_), state_->emit_options());
}

std::string PjrtProgram::text(std::string_view form) const {
  if (form == "stablehlo") return emitted();
  if (form == "optimized")
    return hlo_text(executable_->compiled().optimized_program(), "hlo_with_config");
  fail_with_hint("use stablehlo or optimized", Code::not_found, "a program has no text of form {}",
                 form);
}

// Results must have the types of the graph: a program of the cache is checked no less
// than a new one.
void PjrtProgram::check_results() const {
  const std::vector<DType> types = executable_->compiled().output_types();
  const std::vector<Shape> shapes = executable_->compiled().output_shapes();
  const auto& outputs = source_->outputs();
  bool same = types.size() == outputs.size() && shapes.size() == outputs.size();
  for (size_t o = 0; same && o < outputs.size(); ++o) {
    const graph::ValueType& type = source_->type(outputs[o].value);
    same = types[o] == type.dtype && shapes[o] == type.shape;
  }
  if (!same) {
    fail(Code::internal, "the compiled form of graph {} has other results than the graph",
         source_->name());
  }
}

// Plugins compare the bytes of an argument and nothing else: type, shape, device and liveness are
// checked here.
DeviceBuffer& PjrtProgram::checked_input(const BufferRef& buffer, size_t index) const {
  const graph::GraphInput& input = source_->inputs()[index];
  const graph::ValueType& type = source_->type(input.value);
  const std::string& graph = source_->name();
  if (buffer == nullptr)
    fail(Code::invalid_argument, "input {} of graph {} is missing", input.name, graph);
  auto* mine = dynamic_cast<DeviceBuffer*>(buffer.get());
  if (mine == nullptr || mine->engine() != state_.get()) {
    fail_with_hint("upload it to the engine that runs the graph", Code::invalid_argument,
                   "input {} of graph {} belongs to another engine", input.name, graph);
  }
  if (mine->dtype() != type.dtype || !(mine->shape() == type.shape)) {
    fail(Code::invalid_argument, "input {} of graph {} is {}, given is {}{}", input.name, graph,
         type.text(), dtype_name(mine->dtype()), mine->shape().text());
  }
  if (mine->is_donated()) {
    fail_with_hint("use the output of that run, or keep another reference to the input",
                   Code::failed_precondition,
                   "input {} of graph {} was taken over by an earlier run", input.name, graph);
  }
  mine->check_run();
  return *mine;
}

PjrtProgram::Binding PjrtProgram::bind(std::span<const BufferRef> inputs) const {
  if (inputs.size() != source_->inputs().size()) {
    fail(Code::invalid_argument, "graph {} has {} inputs, {} were given", source_->name(),
         source_->inputs().size(), inputs.size());
  }
  Binding binding;
  for (size_t i = 0; i < inputs.size(); ++i) {
    DeviceBuffer& buffer = checked_input(inputs[i], i);
    binding.arguments.push_back(&buffer.array());
    if (!donated_[i]) continue;
    if (inputs[i].use_count() == 1) {
      binding.taken.push_back(&buffer);
    } else {
      binding.kept.push_back(static_cast<int64_t>(i));
    }
  }
  return binding;
}

std::vector<BufferRef> PjrtProgram::launch(const Binding& binding) const {
  try {
    auto results = executable_->run(std::span(&binding.arguments, 1), binding.kept);
    for (DeviceBuffer* buffer : binding.taken) buffer->mark_donated();
    return wrap(std::move(results.front()), !binding.taken.empty());
  } catch (const Error& error) {
    fail_launch(binding, error);
  } catch (const std::bad_alloc&) {
    fail_launch(binding, Error(Code::resource_exhausted, "out of memory"));
  } catch (const std::exception& error) {
    fail_launch(binding, Error(Code::internal, error.what()));
  }
}

// Whether a launch that failed took its inputs is up to the plugin.
void PjrtProgram::fail_launch(const Binding& binding, const Error& error) const {
  bool lost = false;
  for (DeviceBuffer* buffer : binding.taken) {
    if (!buffer->is_gone()) continue;
    buffer->mark_donated();
    lost = true;
  }
  const Error named(error.code(), fmt::format("graph {}: {}", source_->name(), error.text()),
                    error.hint());
  if (lost) throw lost_state(named);
  throw named;
}

std::vector<BufferRef> PjrtProgram::wrap(std::vector<Array> results, bool took_state) const {
  const auto& outputs = source_->outputs();
  EventHandle finished = results.empty() ? EventHandle() : results.front().ready();
  const auto run = std::make_shared<Run>(std::move(finished), source_->name(), took_state);
  std::vector<BufferRef> made;
  std::vector<std::weak_ptr<DeviceBuffer>> plain; // state is read rarely and never with the rest
  for (size_t o = 0; o < results.size(); ++o) {
    const graph::ValueType& type = source_->type(outputs[o].value);
    auto buffer =
        std::make_shared<DeviceBuffer>(state_, type.dtype, type.shape, std::move(results[o]), run);
    if (outputs[o].donated_input < 0) plain.push_back(buffer);
    made.push_back(std::move(buffer));
  }
  run->set_results(std::move(plain));
  state_->runs().add(run);
  return made;
}

std::vector<BufferRef> PjrtProgram::run(std::span<const BufferRef> inputs, const Task* task,
                                        graph::StopRule) {
  const std::lock_guard lock(running_);
  check_task(task);
  bind(inputs); // wrong inputs fail before the wait
  state_->runs().make_room();
  check_task(task);
  const Binding binding = bind(inputs); // what was waited for may have failed
  return launch(binding);
}

namespace {

int64_t type_bytes(const graph::ValueType& type) {
  return type.shape.count() * dtype_size(type.dtype);
}

} // namespace

graph::CompiledReport compiler_report(const Compiled& compiled) {
  graph::CompiledReport report;
  report.known = true;
  report.fingerprint = compiled.fingerprint();
  if (const auto memory = compiled.memory()) {
    report.argument_bytes = memory->arguments;
    report.output_bytes = memory->outputs;
    report.alias_bytes = memory->aliased;
    report.temporary_bytes = memory->temporaries;
    report.code_bytes = memory->code;
    report.peak_bytes = memory->peak;
  }
  const NamedValues costs = compiled.costs();
  if (const float* flops = find_value<float>(costs, "flops")) report.flops = *flops;
  return report;
}

graph::PlanReport make_report(const graph::Graph& source, graph::CompiledReport compiled) {
  graph::PlanReport report;
  for (const graph::GraphInput& input : source.inputs())
    report.input_bytes += type_bytes(source.type(input.value));
  for (const graph::GraphOutput& output : source.outputs()) {
    if (output.donated_input < 0) report.output_bytes += type_bytes(source.type(output.value));
  }
  report.arena_bytes = compiled.temporary_bytes;
  report.peak_bytes = report.input_bytes + report.output_bytes + report.arena_bytes;
  report.flops = graph::count_flops(source);
  report.compiled = std::move(compiled);
  return report;
}

graph::PlanReport make_report(const graph::Graph& source, const Built& built,
                              const Device& device) {
  graph::CompiledReport compiled = compiler_report(built.executable->compiled());
  compiled.from_cache = built.from_cache;
  compiled.seconds = built.seconds;
  if (const auto use = device.memory_use()) compiled.device_bytes = use->limit;
  return make_report(source, std::move(compiled));
}

void check_aliases(const graph::Graph& source, const graph::CompiledReport& compiled) {
  int64_t given_up = 0;
  for (const graph::GraphOutput& output : source.outputs()) {
    if (output.donated_input >= 0) given_up += type_bytes(source.type(output.value));
  }
  const bool reported = compiled.argument_bytes > 0 || compiled.output_bytes > 0;
  if (!reported || compiled.alias_bytes >= given_up) return;
  fail_with_hint("this is a mistake of the plugin's compiler or of dllm, please report it",
                 Code::internal,
                 "graph {} changes {} bytes of state, its compiled form changes {} in place",
                 source.name(), given_up, compiled.alias_bytes);
}

} // namespace dllm::pjrt

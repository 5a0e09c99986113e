// Programs: checks after compiling, and runs.

#include "pjrt/engine_state.h"

#include "base/error.h"
#include "base/named_table.h"
#include "pjrt/lower/lower.h"
#include "pjrt/plugin/compile.h"

#include <new>
#include <utility>

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
  check_devices();
  report_ = make_report(*source_, built, state_->device());
  check_aliases(*source_, report_.compiled);
}

std::string PjrtProgram::emitted() const {
  return emit(*lower(*source_), state_->emit_options());
}

std::string PjrtProgram::text(std::string_view form) const {
  struct Form {
    const char* name;
    std::string (*text)(const PjrtProgram&);
  };
  static constexpr Form kForms[] = {
      {"stablehlo", [](const PjrtProgram& program) { return program.emitted(); }},
      {"optimized", [](const PjrtProgram& program) {
         return hlo_text(program.executable_->compiled().optimized_program(), "hlo_with_config");
       }}};
  return need_named(kForms, form, &Form::name, {"form", "of the text of a program"}).text(*this);
}

// Checks that the results have the types of the graph, also for a program from the cache.
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

// Checks that replica r runs on the device of rank r, because arguments are passed by rank.
void PjrtProgram::check_devices() const {
  const std::vector<abi::Device*>& devices = executable_->devices();
  bool same = devices.size() == state_->ranks_here();
  for (size_t rank = 0; same && rank < devices.size(); ++rank)
    same = devices[rank] == state_->device(rank).get();
  if (same) return;
  fail(Code::internal,
       "the compiled form of graph {} runs on other devices than the {} of the mesh",
       source_->name(), state_->ranks_here());
}

// Checks an input. Plugins compare only the number of bytes, so engine, type, shape, parts and
// donation are checked here.
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
  const graph::ValueType given{mine->shape(), mine->dtype(), {}, mine->format()};
  if (given.dtype != type.dtype || !(given.shape == type.shape) || given.format != type.format) {
    fail(Code::invalid_argument, "input {} of graph {} is {}, the given array is {}", input.name,
         graph, type.text(), given.text());
  }
  const graph::AxisSet differs =
      differing(state_->mesh(), mine->layout().axes().with(mine->differs()));
  if (!type.axes.contains(differs)) {
    fail(Code::invalid_argument,
         "input {} of graph {} is {}, the given array has parts that differ over {}", input.name,
         graph, type.text(), differs.text());
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
  binding.arguments.resize(state_->ranks_here());
  for (size_t i = 0; i < inputs.size(); ++i) {
    DeviceBuffer& buffer = checked_input(inputs[i], i);
    for (size_t rank = 0; rank < binding.arguments.size(); ++rank)
      binding.arguments[rank].push_back(&buffer.array(rank));
    binding.inputs.push_back(&buffer);
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
    std::vector<std::vector<Array>> results;
    {
      const std::lock_guard lock(state_->starting());
      results = executable_->run(binding.arguments, binding.kept);
    }
    for (DeviceBuffer* buffer : binding.taken) buffer->mark_donated();
    return wrap(std::move(results), binding);
  } catch (const Error& error) {
    fail_launch(binding, error);
  } catch (const std::bad_alloc&) {
    fail_launch(binding, Error(Code::resource_exhausted, "out of memory"));
  } catch (const std::exception& error) {
    fail_launch(binding, Error(Code::internal, error.what()));
  }
}

// Throws the error of a launch. It is a StateLost if the plugin has deleted donated inputs.
void PjrtProgram::fail_launch(const Binding& binding, const Error& error) const {
  bool lost = false;
  for (DeviceBuffer* buffer : binding.taken) {
    if (!buffer->is_gone()) continue;
    buffer->mark_donated();
    lost = true;
  }
  const Error named(error.code(), fmt::format("graph {}: {}", source_->name(), error.text()),
                    error.hint());
  state_->processes().abort(named);
  if (lost) throw lost_state(named);
  throw named;
}

// Makes buffers of results, which are given by rank here and by output.
std::vector<BufferRef> PjrtProgram::wrap(std::vector<std::vector<Array>> results,
                                         const Binding& binding) const {
  const auto& outputs = source_->outputs();
  std::vector<EventHandle> finished;
  for (const std::vector<Array>& of_rank : results) {
    if (!of_rank.empty()) finished.push_back(of_rank.front().ready());
  }
  const auto run = std::make_shared<Run>(std::move(finished), state_->processes().first_rank(),
                                         source_->name(), !binding.taken.empty());
  std::vector<BufferRef> made;
  // Results that are read together. Outputs that take over an input (state) are read rarely.
  std::vector<std::weak_ptr<DeviceBuffer>> plain;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const graph::ValueType& type = source_->type(outputs[o].value);
    const int32_t donated = outputs[o].donated_input;
    const DeviceBuffer* donor =
        donated < 0 ? nullptr : binding.inputs[static_cast<size_t>(donated)];
    DeviceBuffer::Content content{type.dtype, type.shape, {}, {}};
    content.differs = donor != nullptr ? donor->differs() : differing(state_->mesh(), type.axes);
    for (std::vector<Array>& of_rank : results) content.parts.push_back(std::move(of_rank[o]));
    auto buffer = std::make_shared<DeviceBuffer>(state_, std::move(content), run);
    if (donor != nullptr)
      buffer->set_layout(donor->layout());
    else
      plain.push_back(buffer);
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
  bind(inputs); // so that wrong inputs fail before the wait
  state_->runs().make_room();
  check_task(task);
  const Binding binding = bind(inputs); // again, because a run that was waited for may have failed
  return launch(binding);
}

} // namespace dllm::pjrt

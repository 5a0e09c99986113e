#include "train/offload/offloaded_update.h"

#include "base/error.h"
#include "model/params/stack_part.h"
#include "model/plan.h"
#include "runtime/programs.h"
#include "train/step/parameter_turn.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace dllm::train {
namespace {

constexpr size_t kSlicesAhead = 2; // slices that the disk reads before their turn

OffloadedBuffer& offloaded(const graph::BufferRef& array) {
  auto* mine = dynamic_cast<OffloadedBuffer*>(array.get());
  if (mine == nullptr) fail(Code::internal, "an array of the trainer is not offloaded");
  return *mine;
}

} // namespace

OffloadedUpdate::OffloadedUpdate(const ProgramSpec& spec)
    : spec_(spec), plan_(update_slices(spec)) {
  for (size_t i = 0; i < spec_.state.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum) gradient_of_.push_back(i);
  }
  for (const ParameterSlice& slice : plan_) {
    SliceProgram& made = programs_[{slice.parameter, slice.box.size.dims()}];
    if (made.program != nullptr) continue;
    SliceGraph built = build_slice(spec_, slice);
    made.entries = std::move(built.entries);
    made.program = spec_.model->engine().compile(std::move(built.graph));
    window_ = std::max(window_, bytes_of(slice));
  }
}

int64_t OffloadedUpdate::bytes_of(const ParameterSlice& slice) const {
  constexpr int64_t kTemporaries = 3; // parameter, gradient, new parameter
  int64_t numbers = 0;
  for (const StateEntry& entry : spec_.state) {
    if (entry.use != StateUse::sum && entry.parameter == slice.parameter)
      numbers += slice_of_entry(spec_, entry, slice.box).size.count();
  }
  const int64_t temporary = kTemporaries * dtype_size(DType::f32) * slice.box.size.count();
  return 2 * dtype_size(DType::f32) * numbers +
         std::max(temporary, program_of(slice).program->plan().arena_bytes);
}

int64_t OffloadedUpdate::update_bytes() const {
  int64_t gradients = 0;
  for (const StateEntry& entry : spec_.state) {
    if (entry.use == StateUse::sum)
      gradients += dtype_size(DType::f32) * part_type(spec_, entry).shape.count();
  }
  return model::parameter_bytes(*spec_.model) + gradients + window_;
}

OffloadedUpdate::Arrays& OffloadedUpdate::gradients() {
  if (gradients_.size() == spec_.state.size()) return gradients_;
  Arrays made(spec_.state.size());
  graph::Engine& engine = spec_.model->engine();
  for (size_t i = 0; i < made.size() && engine.mesh().ranks() > 1; ++i) {
    if (spec_.state[i].use == StateUse::sum)
      made[i] = model::upload_zeros(engine, spec_.state[i].layout);
  }
  gradients_ = std::move(made);
  return gradients_;
}

const OffloadedUpdate::SliceProgram&
OffloadedUpdate::program_of(const ParameterSlice& slice) const {
  return programs_.at({slice.parameter, slice.box.size.dims()});
}

// Returns host memory of this shape. Slices use the same memory one after the other.
Tensor& OffloadedUpdate::window(size_t index, const Shape& shape) {
  if (windows_.size() <= index) windows_.resize(index + 1);
  Tensor& held = windows_[index];
  if (!held.defined() || !(held.shape() == shape)) held = Tensor(DType::f32, shape);
  return held;
}

void OffloadedUpdate::announce(size_t slice, const Arrays& arrays) const {
  if (slice >= plan_.size()) return;
  for (size_t i = 0; i < spec_.state.size(); ++i) {
    const StateEntry& entry = spec_.state[i];
    if (entry.use == StateUse::sum || entry.parameter != plan_[slice].parameter) continue;
    offloaded(arrays[i]).announce(slice_of_entry(spec_, entry, plan_[slice].box));
  }
}

void OffloadedUpdate::announce_first(const Arrays& arrays) {
  for (size_t slice = 0; slice < kSlicesAhead; ++slice) announce(slice, arrays);
}

// The values that all slices of one update share.
struct OffloadedUpdate::Turn {
  ParameterTurn parameters;
  const Arrays& arrays;
  graph::BufferRef scalars;
  bool has_changed = false; // a parameter or an array

  [[noreturn]] void lose(const Error& error) {
    parameters.set_lost(error.text());
    throw graph::StateLost(error.code(), error.text(), "some parameters have their update",
                           error.hint());
  }
};

void OffloadedUpdate::run_slice(const ParameterSlice& slice, Turn& turn) {
  graph::Engine& engine = spec_.model->engine();
  const SliceProgram& made = program_of(slice);
  const std::vector<int32_t> begin(slice.box.begin.begin(), slice.box.begin.end());
  std::vector<graph::BufferRef> inputs(made.entries.size());
  for (size_t i = 0; i < made.entries.size(); ++i) {
    const OffloadedBuffer& array = offloaded(turn.arrays[made.entries[i]]);
    const Slice box = slice_of_entry(spec_, spec_.state[made.entries[i]], slice.box);
    Tensor& held = window(i, array.slice_shape(box));
    array.read_slice(box, held.mutable_bytes());
    inputs[i] = array.upload_slice(held);
  }
  runtime::Arguments arguments(made.program);
  arguments.donate(kSliceParameter, turn.parameters.buffers[spec_.trained[slice.parameter]]);
  arguments.share(kSliceGradient, gradients_[gradient_of_[slice.parameter]]);
  arguments.share(kSliceScalars, turn.scalars);
  arguments.share(kSliceBegin, engine.upload(Tensor::from(Shape{std::ssize(begin)}, begin)));
  const bool over = engine.mesh().ranks() > 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (over)
      arguments.donate(kSliceArrays + i, inputs[i]);
    else
      arguments.share(kSliceArrays + i, std::move(inputs[i]));
  }
  const std::vector<graph::BufferRef> outputs = arguments.run();
  turn.has_changed = true;
  for (size_t i = 0; i < made.entries.size(); ++i) {
    const graph::BufferRef& next = over ? inputs[i] : outputs[i + 1];
    const Slice box = slice_of_entry(spec_, spec_.state[made.entries[i]], slice.box);
    offloaded(turn.arrays[made.entries[i]]).write_slice(box, next->read_part().bytes());
  }
}

void OffloadedUpdate::update(model::ParamStore& params, const Arrays& arrays,
                             const StepNumbers& numbers, std::span<const float> scalars) {
  if (!numbers.used) return; // the update would write the same bits
  const size_t own = spec_.optimizer->scalars.size();
  std::vector<float> given(scalars.begin(), scalars.begin() + static_cast<std::ptrdiff_t>(own));
  given.resize(own + kSliceScalarCount);
  given[own + kSliceScale] = numbers.scale;
  given[own + kSliceDecay] = scalars[own + kEmaDecay];
  graph::Engine& engine = spec_.model->engine();
  Turn turn{ParameterTurn(params, spec_.trained, nullptr), arrays,
            engine.upload(Tensor::from(Shape{std::ssize(given)}, given))};
  try {
    for (size_t i = 0; i < plan_.size(); ++i) {
      announce(i + kSlicesAhead, arrays);
      run_slice(plan_[i], turn);
    }
  } catch (const graph::StateLost& error) {
    turn.parameters.set_lost(error.text());
    throw;
  } catch (const Error& error) {
    if (!turn.has_changed) throw;
    turn.lose(error);
  } catch (const std::exception& error) {
    if (!turn.has_changed) throw;
    turn.lose(Error(Code::resource_exhausted, error.what()));
  }
  turn.parameters.set_changed();
}

void OffloadedUpdate::add_to_sums(const Arrays& arrays, bool is_first) {
  try {
    for (size_t i = 0; i < gradients_.size(); ++i) {
      if (gradients_[i] != nullptr) offloaded(arrays[i]).add(gradients_[i]->read_part(), is_first);
    }
  } catch (const Error& error) {
    throw graph::StateLost(error.code(), error.text(), "some sums have the gradients of the batch",
                           error.hint());
  }
}

void OffloadedUpdate::load_sums(const Arrays& arrays) {
  Arrays& loaded = gradients();
  for (size_t i = 0; i < loaded.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum) loaded[i] = offloaded(arrays[i]).resident();
  }
}

void OffloadedUpdate::release_gradients() {
  if (spec_.model->engine().mesh().ranks() == 1) drop_gradients();
}

} // namespace dllm::train

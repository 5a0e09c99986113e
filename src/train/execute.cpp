#include "base/error.h"
#include "train/state.h"

#include <string_view>

namespace dllm::train {

// Where an input comes from, resolved once when the program is compiled.
enum class Place { param, first, second, ema, sums, scalars, control, feed };

class Bound {
public:
  Bound(Trainer::State& state, ProgramKind kind, std::string signature, const Batch& feed);

  bool is(ProgramKind kind, const std::string& signature) const {
    return kind_ == kind && signature_ == signature;
  }
  StepNumbers run(Trainer::State& state, const Batch& feed, const std::vector<float>& scalars,
                  const Task* task);
  double flops(double used_rows) const {
    return program_->plan().flops - head_flops_per_row_ * (capacity_ - used_rows);
  }
  double used_rows() const { return used_rows_; }

private:
  struct Input {
    Place place;
    size_t index; // into slots, physical parameters, or arrays of the feed
    bool donated = false;
  };
  struct Output {
    std::string name;
    int input = -1; // the input whose place it takes
  };
  Input locate(const Trainer::State& state, const std::string& name, const Batch& feed) const;
  graph::BufferRef take(Trainer::State& state, const Input& input) const;
  void put(Trainer::State& state, const Input& input, graph::BufferRef buffer) const;
  graph::BufferRef input_buffer(Trainer::State& state, const Input& input, const Batch& feed,
                                const std::vector<float>& scalars) const;

  ProgramKind kind_;
  std::string signature_;
  std::shared_ptr<graph::Program> program_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  double head_flops_per_row_ = 0;
  double capacity_ = 0;
  double used_rows_ = 0;
};

namespace {

std::shared_ptr<graph::Graph> build(const Trainer::State& state, ProgramKind kind,
                                    const Batch& feed) {
  switch (kind) {
  case ProgramKind::fused: return build_fused(state.spec, feed);
  case ProgramKind::accumulate: return build_accumulate(state.spec, feed);
  case ProgramKind::apply: return build_apply(state.spec);
  }
  fail(Code::internal, "unknown kind of program");
}

double read_scalar(const graph::BufferRef& buffer) {
  return buffer->read().as<float>()[0];
}

} // namespace

Bound::Bound(Trainer::State& state, ProgramKind kind, std::string signature, const Batch& feed)
    : kind_(kind), signature_(std::move(signature)),
      program_(state.engine().compile(build(state, kind, feed))) {
  const graph::Graph& graph = program_->graph();
  for (const graph::GraphInput& input : graph.inputs())
    inputs_.push_back(locate(state, input.name, feed));
  for (const graph::GraphOutput& output : graph.outputs()) {
    outputs_.push_back({output.name, output.donated_input});
    if (output.donated_input >= 0)
      inputs_[static_cast<size_t>(output.donated_input)].donated = true;
  }
  if (const Tensor* rows = feed.find("rows")) {
    // The head multiplies once forward, once again for the gradients, which take two products.
    constexpr double kHeadProducts = 4;
    const model::ModelConfig& config = state.model->config();
    capacity_ = static_cast<double>(rows->count());
    head_flops_per_row_ =
        kHeadProducts * 2.0 * static_cast<double>(config.vocab_size * config.hidden_size);
  }
}

Bound::Input Bound::locate(const Trainer::State& state, const std::string& name,
                           const Batch& feed) const {
  if (name == "scalars") return {Place::scalars, 0};
  if (name == "control") return {Place::control, 0};
  const size_t colon = name.find(':');
  const std::string_view kind = std::string_view(name).substr(0, colon);
  const std::string rest = name.substr(colon + 1);
  if (kind == "batch") {
    for (size_t i = 0; i < feed.size(); ++i) {
      if (feed.name(i) == rest) return {Place::feed, i};
    }
  }
  const model::ParamStore& store = state.model->params();
  if (kind == "param") return {Place::param, store.index(rest)};
  for (size_t i = 0; i < state.slots.size(); ++i) {
    if (store.physical()[state.slots[i].physical].name != rest) continue;
    if (kind == "first") return {Place::first, i};
    if (kind == "second") return {Place::second, i};
    if (kind == "ema") return {Place::ema, i};
    if (kind == "sums") return {Place::sums, i};
  }
  fail(Code::internal, "program input {} belongs to nothing", name);
}

namespace {

graph::BufferRef& state_buffer(Trainer::State& state, Place place, size_t index) {
  Slot& slot = state.slots[index];
  switch (place) {
  case Place::first: return slot.first;
  case Place::second: return slot.second;
  case Place::ema: return slot.ema;
  default: return slot.sums;
  }
}

} // namespace

// A donated buffer leaves its place: the engine writes in place only when nobody else holds it.
graph::BufferRef Bound::take(Trainer::State& state, const Input& input) const {
  if (input.place == Place::param) {
    graph::BufferRef buffer = state.model->params().physical()[input.index].buffer;
    if (input.donated) state.model->params().replace(input.index, nullptr);
    return buffer;
  }
  graph::BufferRef& place = state_buffer(state, input.place, input.index);
  return input.donated ? std::move(place) : place;
}

void Bound::put(Trainer::State& state, const Input& input, graph::BufferRef buffer) const {
  if (input.place == Place::param)
    state.model->params().replace(input.index, std::move(buffer));
  else
    state_buffer(state, input.place, input.index) = std::move(buffer);
}

graph::BufferRef Bound::input_buffer(Trainer::State& state, const Input& input, const Batch& feed,
                                     const std::vector<float>& scalars) const {
  graph::Engine& engine = state.engine();
  switch (input.place) {
  case Place::scalars: return engine.upload(Tensor::from(Shape{kScalarCount}, scalars));
  case Place::control: return engine.upload(Tensor::from(Shape{kControlCount}, state.control));
  case Place::feed: return engine.upload(feed.value(input.index), true);
  default: return take(state, input);
  }
}

// Cancelled before the update begins or not at all: it is written over the weights, and half of one
// would be neither.
StepNumbers Bound::run(Trainer::State& state, const Batch& feed, const std::vector<float>& scalars,
                       const Task* task) {
  std::vector<graph::BufferRef> inputs;
  std::vector<graph::BufferRef> outputs;
  try {
    for (const Input& input : inputs_) inputs.push_back(input_buffer(state, input, feed, scalars));
    outputs = program_->run(inputs, task, graph::StopRule::before_overwrite);
  } catch (const Error& error) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs_[i].donated) put(state, inputs_[i], std::move(inputs[i]));
    }
    if (error.hint().find("state lost") != std::string::npos) state.lost = error.text();
    throw;
  }

  StepNumbers numbers;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    if (output.input >= 0)
      put(state, inputs_[static_cast<size_t>(output.input)], std::move(outputs[i]));
    else if (output.name == "sum")
      numbers.sum = read_scalar(outputs[i]);
    else if (output.name == "normalizer")
      numbers.normalizer = read_scalar(outputs[i]);
    else if (output.name == "grad_norm")
      numbers.grad_norm = read_scalar(outputs[i]);
    else if (output.name == "finite")
      numbers.finite = read_scalar(outputs[i]) != 0;
    else if (output.name.starts_with("part:"))
      numbers.parts[output.name.substr(5)].first = read_scalar(outputs[i]);
    else if (output.name.starts_with("part_count:"))
      numbers.parts[output.name.substr(11)].second = read_scalar(outputs[i]);
    else if (output.name == "control") {
      const Tensor words = outputs[i]->read();
      state.agreed.assign(words.as<int32_t>().begin(), words.as<int32_t>().end());
    }
  }
  if (kind_ != ProgramKind::accumulate) state.model->params().bump();
  if (const Tensor* count = feed.find("count")) used_rows_ = count->as<int32_t>()[0];
  return numbers;
}

StepNumbers execute(Trainer::State& state, ProgramKind kind, const Batch& feed,
                    const std::vector<float>& scalars, const Task* task) {
  constexpr size_t kKeptPrograms = 8;
  const std::string signature = noise::feed_signature(feed);
  auto& programs = state.programs;
  auto found = programs.begin();
  while (found != programs.end() && !(*found)->is(kind, signature)) ++found;
  if (found == programs.end()) {
    programs.push_front(std::make_shared<Bound>(state, kind, signature, feed));
    if (programs.size() > kKeptPrograms) programs.pop_back();
  } else {
    programs.splice(programs.begin(), programs, found);
  }
  check_task(task);
  return programs.front()->run(state, feed, scalars, task);
}

double flops_of_last_run(const Trainer::State& state) {
  return state.programs.empty()
             ? 0.0
             : state.programs.front()->flops(state.programs.front()->used_rows());
}

} // namespace dllm::train

#include "base/error.h"
#include "train/state.h"

#include <string_view>

namespace dllm::train {

// Where an input comes from, resolved once when the program is compiled.
enum class Place { param, first, second, ema, sums, scalars, control, halted, feed };

class Bound : public std::enable_shared_from_this<Bound> {
public:
  Bound(Trainer::State& state, ProgramKind kind, std::string signature, const Batch& feed);

  bool is(ProgramKind kind, const std::string& signature) const {
    return kind_ == kind && signature_ == signature;
  }
  Launched run(Trainer::State& state, const Batch& feed, const std::vector<float>& scalars,
               const Task* task);
  const std::vector<std::string>& parts() const { return parts_; }

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
  std::vector<std::string> parts_;
  std::shared_ptr<graph::Program> program_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  double head_flops_per_row_ = 0;
  double capacity_ = 0;
};

namespace {

StepGraph build(const Trainer::State& state, ProgramKind kind, const Batch& feed) {
  switch (kind) {
  case ProgramKind::fused: return build_fused(state.spec, feed);
  case ProgramKind::accumulate: return build_accumulate(state.spec, feed);
  case ProgramKind::apply: return build_apply(state.spec);
  }
  fail(Code::internal, "unknown kind of program");
}

} // namespace

Bound::Bound(Trainer::State& state, ProgramKind kind, std::string signature, const Batch& feed)
    : kind_(kind), signature_(std::move(signature)) {
  StepGraph built = build(state, kind, feed);
  parts_ = std::move(built.parts);
  program_ = state.engine().compile(std::move(built.graph));
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
  if (name == "halted") return {Place::halted, 0};
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
  case Place::halted:
    return state.halted ? state.halted : engine.upload(Tensor(DType::f32, Shape{}));
  case Place::feed: return engine.upload(feed.value(input.index), true);
  default: return take(state, input);
  }
}

// Cancelled before the update begins or not at all: it is written over the weights, and half of one
// would be neither.
Launched Bound::run(Trainer::State& state, const Batch& feed, const std::vector<float>& scalars,
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

  Launched launched{nullptr, shared_from_this(), program_->plan().flops};
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    if (output.input >= 0)
      put(state, inputs_[static_cast<size_t>(output.input)], std::move(outputs[i]));
    else if (output.name == "halted")
      state.halted = std::move(outputs[i]);
    else
      launched.numbers = std::move(outputs[i]);
  }
  if (kind_ != ProgramKind::accumulate) state.model->params().bump();
  if (const Tensor* count = feed.find("count"))
    launched.flops -= head_flops_per_row_ * (capacity_ - count->as<int32_t>()[0]);
  return launched;
}

Launched execute(Trainer::State& state, ProgramKind kind, const Batch& feed,
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

StepNumbers read_numbers(const Launched& run, std::vector<int32_t>& words) {
  const Tensor read = run.numbers->read();
  const std::span<const float> row = read.as<float>();
  StepNumbers numbers;
  numbers.sum = row[kNumberSum];
  numbers.normalizer = row[kNumberNormalizer];
  numbers.grad_norm = row[kNumberGradNorm];
  numbers.finite = row[kNumberFinite] != 0;
  words.resize(kControlCount);
  for (size_t i = 0; i < kControlCount; ++i)
    words[i] = static_cast<int32_t>(row[kNumberControl + i]);
  size_t next = kNumberCount;
  for (const std::string& part : run.by->parts()) {
    numbers.parts[part] = {row[next], row[next + 1]};
    next += 2;
  }
  return numbers;
}

} // namespace dllm::train

#include "base/error.h"
#include "graph/state_lost.h"
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
  class Trip;
  Input locate(const Trainer::State& state, const std::string& name, const Batch& feed) const;
  graph::BufferRef fresh_input(Trainer::State& state, const Input& input, const Batch& feed,
                               const std::vector<float>& scalars) const;

  ProgramKind kind_;
  std::string signature_;
  std::vector<std::string> parts_;
  std::shared_ptr<graph::Program> program_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<size_t> donated_params_; // physical index of each
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
  for (const Input& input : inputs_) {
    if (input.donated && input.place == Place::param) donated_params_.push_back(input.index);
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

bool is_held(Place place) {
  return place == Place::param || place == Place::first || place == Place::second ||
         place == Place::ema || place == Place::sums;
}

} // namespace

// What is made for this run alone.
graph::BufferRef Bound::fresh_input(Trainer::State& state, const Input& input, const Batch& feed,
                                    const std::vector<float>& scalars) const {
  graph::Engine& engine = state.engine();
  switch (input.place) {
  case Place::scalars: return engine.upload(Tensor::from(Shape{kScalarCount}, scalars));
  case Place::control: return engine.upload(Tensor::from(Shape{kControlCount}, state.control));
  case Place::halted:
    return state.halted ? state.halted : engine.upload(Tensor(DType::f32, Shape{}));
  default: return engine.upload(feed.value(input.index), true);
  }
}

// The inputs of one run. Donated buffers leave their places: the engine writes in place only when
// there is no other holder. Without finish() they go back, whatever ended the run; lose() puts back
// what is left of them and marks the trainer, and the model where its weights were among them.
class Bound::Trip {
public:
  Trip(const Bound& bound, Trainer::State& state, const Batch& feed,
       const std::vector<float>& scalars, const Task* task)
      : inputs(bound.inputs_.size()), bound_(bound), state_(state) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Input& input = bound.inputs_[i];
      if (!is_held(input.place)) inputs[i] = bound.fresh_input(state, input, feed, scalars);
    }
    params_.reserve(bound.donated_params_.size());
    std::vector<graph::BufferRef> params =
        state.model->params().take(bound.donated_params_, task);
    // From here to the end nothing fails.
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Input& input = bound.inputs_[i];
      if (!is_held(input.place)) continue;
      graph::BufferRef& place = input.place == Place::param
                                    ? params[input.index]
                                    : state_buffer(state, input.place, input.index);
      if (input.donated)
        inputs[i] = std::move(place);
      else
        inputs[i] = place;
    }
  }
  ~Trip() {
    if (ended_) return;
    put_back();
    state_.model->params().put(bound_.donated_params_, std::move(params_), false);
  }
  Trip(const Trip&) = delete;
  Trip& operator=(const Trip&) = delete;

  void lose(const Error& error) {
    put_back();
    ended_ = true;
    state_.lost = error.text();
    // A run that was given no weights has written into none.
    if (!bound_.donated_params_.empty()) state_.model->params().lose(error.text());
  }

  // outputs[o] takes the place of the input that it was donated.
  void finish(std::vector<graph::BufferRef>& outputs, bool changed) {
    for (size_t o = 0; o < outputs.size(); ++o) {
      const int donor = bound_.outputs_[o].input;
      if (donor >= 0) inputs[static_cast<size_t>(donor)] = std::move(outputs[o]);
    }
    put_back();
    ended_ = true;
    model::ParamStore& store = state_.model->params();
    store.put(bound_.donated_params_, std::move(params_), changed);
    if (changed && bound_.donated_params_.empty()) store.bump();
  }

  std::vector<graph::BufferRef> inputs;

private:
  // Arrays of the trainer into their places, parameters into params_.
  void put_back() {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Input& input = bound_.inputs_[i];
      if (!input.donated) continue;
      if (input.place == Place::param)
        params_.push_back(std::move(inputs[i]));
      else
        state_buffer(state_, input.place, input.index) = std::move(inputs[i]);
    }
  }

  const Bound& bound_;
  Trainer::State& state_;
  std::vector<graph::BufferRef> params_; // as bound.donated_params_
  bool ended_ = false;
};

// Cancelled before the update begins or not at all: it is written over the weights, and half of one
// would be neither.
Launched Bound::run(Trainer::State& state, const Batch& feed, const std::vector<float>& scalars,
                    const Task* task) {
  Launched launched{nullptr, shared_from_this(), program_->plan().flops};
  Trip trip(*this, state, feed, scalars, task);
  std::vector<graph::BufferRef> outputs;
  try {
    outputs = program_->run(trip.inputs, task, graph::StopRule::before_overwrite);
  } catch (const graph::StateLost& error) {
    trip.lose(error);
    throw;
  }
  trip.finish(outputs, kind_ != ProgramKind::accumulate);
  for (size_t o = 0; o < outputs_.size(); ++o) {
    if (outputs_[o].input >= 0) continue;
    (outputs_[o].name == "halted" ? state.halted : launched.numbers) = std::move(outputs[o]);
  }
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

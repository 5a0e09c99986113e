#include "train/step/train_program.h"

#include "base/error.h"
#include "graph/engine.h"
#include "graph/passes.h"
#include "noise/loss/token_ce.h"
#include "runtime/programs.h"
#include "train/step/fitted_step.h"
#include "train/step/parameter_turn.h"

#include <algorithm>

namespace dllm::train {

TrainProgram::TrainProgram(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
                           const Task* task)
    : changes_weights_(kind != ProgramKind::accumulate && !spec.offloads()),
      is_scratch_(spec.offloads()), engine_(spec.model->engine()),
      batch_axes_(batch_axes(engine_.mesh())) {
  FittedStep fitted = fitted_step(spec, kind, feed, task);
  inputs_ = std::move(fitted.built.inputs);
  outputs_ = std::move(fitted.built.outputs);
  parts_ = std::move(fitted.built.parts);
  observed_ = std::move(fitted.built.observed);
  program_ = std::move(fitted.program);
  recompute_ = fitted.recompute;
  donated_.resize(inputs_.size());
  for (const graph::GraphOutput& output : program_->graph().outputs()) {
    if (output.donated_input >= 0) donated_[static_cast<size_t>(output.donated_input)] = true;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (donated_[i] && inputs_[i].kind == Place::Kind::parameter)
      donated_params_.push_back(inputs_[i].index);
  }
  if (const Tensor* rows = feed.find(noise::kHeadRows)) {
    // The head has one product forward, the same one again for the gradients, and two products of
    // gradients. An engine may need fewer.
    constexpr double kHeadProducts = 4;
    const model::ModelConfig& config = spec.model->config();
    head_rows_ = static_cast<double>(rows->count());
    const double saved = graph::count_flops(program_->graph()) - program_->plan().flops;
    head_flops_per_row_ =
        kHeadProducts * 2.0 * static_cast<double>(config.vocab_size * config.hidden_size) -
        saved / std::max(head_rows_, 1.0);
  }
}

graph::BufferRef TrainProgram::run(const Operands& operands, const Task* task) const {
  using Kind = Place::Kind;
  // Calls that make data for this run alone may fail, and come first.
  std::vector<graph::BufferRef> fresh(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    switch (inputs_[i].kind) {
    case Kind::scalars: {
      const auto count = static_cast<int64_t>(operands.scalars.size());
      fresh[i] = engine_.upload(Tensor::from(Shape{count}, operands.scalars));
      break;
    }
    case Kind::control:
      fresh[i] = engine_.upload(Tensor::from(Shape{kControlCount}, operands.control));
      break;
    case Kind::halted:
      fresh[i] = operands.halted ? operands.halted : engine_.upload(Tensor(DType::f32, Shape{}));
      break;
    case Kind::feed: fresh[i] = feed_array(operands.feeds, inputs_[i].index); break;
    default: break;
    }
  }
  ParameterTurn turn(operands.params, donated_params_, task);
  runtime::Arguments arguments(program_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Place place = inputs_[i];
    const bool held = place.kind == Kind::parameter || place.kind == Kind::state;
    graph::BufferRef& home = place.kind == Kind::parameter ? turn.buffers[place.index]
                             : held                        ? operands.state[place.index]
                                                           : fresh[i];
    if (donated_[i])
      arguments.donate(i, home);
    else
      arguments.share(i, home);
  }
  fresh.clear();
  std::vector<graph::BufferRef> outputs;
  try {
    outputs = arguments.run(task, is_scratch_ ? graph::StopRule::anywhere
                                              : graph::StopRule::before_overwrite);
  } catch (const graph::StateLost& error) {
    if (is_scratch_) throw Error(error.code(), error.text());
    // A run that was given no weights has written to none.
    if (!donated_params_.empty()) turn.set_lost(error.text());
    throw;
  }
  if (changes_weights_) turn.set_changed();
  graph::BufferRef numbers;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs_[o].kind == Kind::halted) operands.halted = std::move(outputs[o]);
    if (outputs_[o].kind == Kind::numbers) numbers = std::move(outputs[o]);
    if (outputs_[o].kind == Kind::state && outputs[o] != nullptr)
      operands.state[outputs_[o].index] = std::move(outputs[o]);
  }
  return numbers;
}

StepNumbers TrainProgram::read(const graph::Buffer& buffer) const {
  const Tensor read = buffer.read();
  const std::span<const float> row = read.as<float>();
  StepNumbers numbers;
  numbers.sum = row[kNumberSum];
  numbers.normalizer = row[kNumberNormalizer];
  numbers.grad_norm = row[kNumberGradNorm];
  numbers.finite = row[kNumberFinite] != 0;
  numbers.used = row[kNumberUsed] != 0;
  numbers.scale = row[kNumberScale];
  for (size_t i = 0; i < kControlCount; ++i)
    numbers.control.push_back(static_cast<int32_t>(row[kNumberControl + i]));
  size_t next = kNumberCount;
  for (const std::string& part : parts_) {
    numbers.parts[part] = {row[next], row[next + 1]};
    next += 2;
  }
  for (const auto& [name, size] : observed_) {
    const std::span<const float> own = row.subspan(next, size);
    numbers.observed[name].assign(own.begin(), own.end());
    next += size;
  }
  return numbers;
}

graph::BufferRef TrainProgram::feed_array(const Feeds& feeds, size_t index) const {
  if (feeds.size() == 1) return engine_.upload(feeds[0].value(index), true);
  std::vector<Tensor> pieces;
  for (const Batch& feed : feeds) pieces.push_back(feed.value(index));
  return engine_.upload_pieces(pieces, batch_axes_, true);
}

double TrainProgram::flops(const Feeds& feeds) const {
  double unused = 0;
  for (const Batch& feed : feeds) {
    const Tensor* used = feed.find(noise::kHeadCount);
    unused += used == nullptr ? 0.0 : head_rows_ - used->as<int32_t>()[0];
  }
  const auto ranks = static_cast<double>(engine_.mesh().ranks());
  return ranks * program_->plan().flops - head_flops_per_row_ * unused;
}

} // namespace dllm::train

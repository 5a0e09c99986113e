#include "train/trainer.h"

#include "base/error.h"
#include "train/in_flight.h"

namespace dllm::train {

Trainer::Trainer(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
                 const Options& options)
    : state_(std::make_unique<State>(std::move(model), std::move(objective), options)) {}
Trainer::~Trainer() = default;

void Trainer::start_step(const Batch& batch, const Task* task) {
  State& state = *state_;
  state.check_usable();
  if (state.accumulated.batches > 0) {
    fail_with_hint("call apply first", Code::failed_precondition, "{} batches are accumulated",
                   state.accumulated.batches);
  }
  make_room(state);
  start_fused(state, batch, task);
  if (!state.engine().runs_ahead()) settle_all(state);
}

double Trainer::step(const Batch& batch, const Task* task) {
  start_step(batch, task);
  sync();
  return state_->last_loss;
}

void Trainer::accumulate(const Batch& batch, const Task* task) {
  State& state = *state_;
  state.check_usable();
  make_room(state);
  start_accumulate(state, batch, task);
  if (!state.engine().runs_ahead()) settle_all(state);
}

// The update is divided by what all its micro-batches counted: they are read first.
void Trainer::start_apply(const Task* task) {
  State& state = *state_;
  state.check_usable();
  settle_all(state);
  if (state.accumulated.batches == 0)
    fail_with_hint("call accumulate first", Code::failed_precondition, "nothing is accumulated");
  train::start_apply(state, task);
  if (!state.engine().runs_ahead()) settle_all(state);
}

double Trainer::apply(const Task* task) {
  start_apply(task);
  sync();
  return state_->last_loss;
}

void Trainer::sync() const {
  state_->check_usable();
  settle_all(*state_);
}

int64_t Trainer::accumulated() const {
  return state_->accumulated.batches;
}
int64_t Trainer::steps_done() const {
  return state_->counters.step;
}
const Options& Trainer::options() const {
  return state_->options;
}
const noise::ObjectiveRef& Trainer::objective() const {
  return state_->objective;
}

} // namespace dllm::train

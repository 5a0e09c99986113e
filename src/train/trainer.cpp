#include "train/trainer.h"

#include "train/state.h"

namespace dllm::train {

Trainer::Trainer(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
                 const Options& options)
    : state_(std::make_unique<State>(std::move(model), std::move(objective), options)) {}
Trainer::~Trainer() = default;

void Trainer::start_step(const Batch& batch, const Task* task) {
  state_->runner.start_step(batch, task);
}

double Trainer::step(const Batch& batch, const Task* task) {
  start_step(batch, task);
  state_->runner.read_all();
  return state_->runner.last_loss();
}

void Trainer::accumulate(const Batch& batch, const Task* task) {
  state_->runner.start_accumulate(batch, task);
}

void Trainer::start_apply(const Task* task) {
  state_->runner.start_apply(task);
}

double Trainer::apply(const Task* task) {
  start_apply(task);
  state_->runner.read_all();
  return state_->runner.last_loss();
}

void Trainer::sync() const {
  state_->runner.read_all();
  state_->save.wait();
}

int64_t Trainer::accumulated() const {
  return state_->runner.accumulated().batches;
}
int64_t Trainer::steps_done() const {
  return state_->runner.counters().step;
}
const Options& Trainer::options() const {
  return state_->runner.options();
}
const noise::ObjectiveRef& Trainer::objective() const {
  return state_->runner.objective();
}

} // namespace dllm::train

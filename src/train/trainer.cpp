#include "train/trainer.h"

#include "base/error.h"
#include "base/named_table.h"
#include "train/step/step_metrics.h"
#include "train/trainer_state.h"

#include <nlohmann/json.hpp>

#include <cmath>

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

Metrics::Metrics() : values_(named_metrics({})) {}

void Metrics::set(const std::map<std::string, double>& values) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, value] : values) values_[key] = value;
}

std::map<std::string, double> Metrics::all() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

double Metrics::at(const std::string& key) const {
  const std::map<std::string, double> values = all();
  return need_named(values, key, kEntryName, {"metric", "of a trainer"}).second;
}

double Trainer::metric(const std::string& key) const {
  return state_->runner.metrics().at(key);
}

namespace {

// Describes the optimizer's state.
Json describe_optimizer(const ProgramSpec& spec) {
  Json made = {
      {"name", spec.optimizer->name}, {"arrays", Json::array()}, {"scalars", Json::array()}};
  for (const StateEntry& entry : spec.state) {
    if (entry.use != StateUse::optimizer) continue;
    const int64_t bytes = dtype_size(DType::f32) * entry.layout.shape().count();
    Json& arrays = made["arrays"];
    if (arrays.empty() || arrays.back()["name"] != entry.name)
      arrays.push_back({{"name", entry.name}, {"bytes", 0}});
    arrays.back()["bytes"] = arrays.back()["bytes"].get<int64_t>() + bytes;
  }
  for (const StepScalar& scalar : spec.optimizer->scalars) made["scalars"].push_back(scalar.name);
  return made;
}

} // namespace

Json Trainer::describe() const {
  const StepRunner& runner = state_->runner;
  const Hyper hyper = runner.hyper();
  Json made;
  made["metrics"] = runner.metrics().all();
  for (const StepMetric& row : step_metrics()) made["units"][row.name] = row.unit;
  made["lr"] = hyper.lr;
  made["weight_decay"] = hyper.weight_decay;
  made["clip"] = hyper.clip;
  made["recomputed"] = runner.recomputed();
  made["options"] = runner.options().to_json();
  made["optimizer"] = describe_optimizer(runner.spec());
  made["objective"] = runner.objective()->describe();
  Json quirks = Json::array();
  if (runner.spec().mean_of_means)
    quirks.push_back(
        "each accumulated batch is divided by its own count, as dllm-jax and nano-dlm do");
  if (runner.rate().starts_at_zero)
    quirks.push_back("the first update of warm-up has rate 0, as in dllm-jax and nano-dlm");
  made["quirks"] = quirks;
  return made;
}

void Trainer::set_f64(const std::string& key, double value) {
  if (!std::isfinite(value) || value < 0) {
    fail(Code::invalid_argument, "{} = {} must be finite and 0 or more", key, value);
  }
  StepRunner& runner = state_->runner;
  if (key == "lr")
    runner.set_hyper(&Hyper::lr, value);
  else if (key == "weight_decay")
    runner.set_hyper(&Hyper::weight_decay, value);
  else if (key == "clip")
    runner.set_hyper(&Hyper::clip, value);
  else
    fail_unnamed({"trainer setting"}, key, {"lr", "weight_decay", "clip"});
}

void Trainer::add_sink(const std::string& kind, const std::string& target, const Options& options) {
  if (state_->runner.engine().process() > 0) return; // the first process writes for all
  std::unique_ptr<Sink> made = make_sink(kind, target, options);
  if (state_->restored) made->rewind(state_->runner.counters().step);
  state_->sinks.push_back(std::move(made));
}

std::shared_ptr<model::Model> Trainer::model(const std::string& role) const {
  const StepRunner& runner = state_->runner;
  if (role == "live") return runner.model();
  if (role != "ema") fail_unnamed({"model role"}, role, {"live", "ema"});
  if (!runner.spec().ema) {
    fail_with_hint("make the trainer with ema = 0.999", Code::failed_precondition,
                   "this trainer keeps no moving average");
  }
  const std::vector<graph::BufferRef> averages = runner.averages();
  return model::clone_model(*runner.model(), [&](size_t index) {
    return averages[index] == nullptr ? Tensor() : averages[index]->read();
  });
}

} // namespace dllm::train

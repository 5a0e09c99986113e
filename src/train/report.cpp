// What a trainer reports, and the settings that may be changed between steps.

#include "base/error.h"
#include "train/state.h"
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::train {

double Trainer::metric(const std::string& key) const { return state_->runner.metrics().at(key); }

namespace {

// What the optimizer keeps, beside the weights.
Json describe_optimizer(const ProgramSpec& spec) {
  Json made = {{"name", spec.optimizer->name}, {"arrays", Json::array()}, {"scalars", Json::array()}};
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
  made["lr"] = hyper.lr;
  made["weight_decay"] = hyper.weight_decay;
  made["clip"] = hyper.clip;
  made["options"] = runner.options().to_json();
  made["optimizer"] = describe_optimizer(runner.spec());
  made["objective"] = runner.objective()->describe();
  Json quirks = Json::array();
  if (runner.spec().mean_of_means)
    quirks.push_back("each accumulated batch is divided by its own count, as dllm-jax and nano-dlm do");
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
    fail_with_hint("set lr, weight_decay or clip", Code::not_found, "no trainer setting named {}",
                   key);
}

void Trainer::add_sink(const std::string& kind, const std::string& target, const Options& options) {
  std::unique_ptr<Sink> made = make_sink(kind, target, options);
  if (state_->restored) made->rewind(state_->runner.counters().step);
  state_->sinks.push_back(std::move(made));
}

std::shared_ptr<model::Model> Trainer::model(const std::string& role) const {
  const StepRunner& runner = state_->runner;
  if (role == "live") return runner.model();
  if (role != "ema")
    fail_with_hint("the roles are live and ema", Code::not_found, "no model role named {}", role);
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

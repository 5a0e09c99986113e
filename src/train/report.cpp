// What a trainer tells and lets be changed between steps.

#include "base/error.h"
#include "train/state.h"
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::train {

double Trainer::metric(const std::string& key) const {
  const std::lock_guard lock(state_->metrics_mutex);
  const auto found = state_->metrics.find(key);
  if (found != state_->metrics.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : state_->metrics) names.push_back(name);
  const std::string near = nearest(key, names);
  fail_with_hint(near.empty() ? "" : "did you mean " + near + "?", Code::not_found,
                 "no metric named {}", key);
}

Json Trainer::describe() const {
  Json made;
  {
    const std::lock_guard lock(state_->metrics_mutex);
    made["metrics"] = state_->metrics;
    made["lr"] = state_->hyper.lr;
    made["weight_decay"] = state_->hyper.weight_decay;
    made["clip"] = state_->hyper.clip;
  }
  made["options"] = state_->options.to_json();
  made["objective"] = state_->objective->describe();
  Json quirks = Json::array();
  if (state_->mean_of_means()) {
    quirks.push_back(
        "each accumulated batch is divided by its own count (spec-dllm-jax 5.1, spec-nano-dlm 7)");
  }
  if (state_->rate.starts_at_zero)
    quirks.push_back("the first update of warm-up has rate 0 (spec-dllm-jax 5.1)");
  made["quirks"] = quirks;
  return made;
}

void Trainer::set_f64(const std::string& key, double value) {
  if (!std::isfinite(value) || value < 0) {
    fail(Code::invalid_argument, "{} = {} must be finite and 0 or more", key, value);
  }
  const std::lock_guard lock(state_->metrics_mutex);
  if (key == "lr")
    state_->hyper.lr = value;
  else if (key == "weight_decay")
    state_->hyper.weight_decay = value;
  else if (key == "clip")
    state_->hyper.clip = value;
  else
    fail_with_hint("set lr, weight_decay or clip", Code::not_found, "no trainer setting named {}",
                   key);
}

void Trainer::add_sink(const std::string& kind, const std::string& target, const Options& options) {
  std::unique_ptr<Sink> made = make_sink(kind, target, options);
  if (state_->restored) made->rewind(state_->counters.step);
  state_->sinks.push_back(std::move(made));
}

std::shared_ptr<model::Model> Trainer::model(const std::string& role) const {
  if (role == "live") return state_->model;
  if (role != "ema")
    fail_with_hint("the roles are live and ema", Code::not_found, "no model role named {}", role);
  if (!state_->spec.ema) {
    fail_with_hint("make the trainer with ema = 0.999", Code::failed_precondition,
                   "this trainer keeps no moving average");
  }
  std::map<size_t, graph::BufferRef> averages; // by physical index
  state_->model->params().while_whole([&] {
    for (const Slot& slot : state_->slots) averages[slot.physical] = slot.ema;
  });
  return model::clone_model(*state_->model, [&](size_t index) {
    const auto found = averages.find(index);
    return found == averages.end() ? Tensor() : found->second->read();
  });
}

} // namespace dllm::train

// Reads the results of started steps, changes the counters and publishes the metrics.

#include "base/error.h"
#include "base/log.h"
#include "train/step/step_metrics.h"
#include "train/step/step_runner.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace dllm::train {

// Steps and micro-batches that may be unread between two calls of the trainer.
constexpr size_t kMostUnread = 2;

// The results of a step that are reported.
struct StepRunner::Finished {
  double loss = 0, grad_norm = 0, seconds = 0, flops = 0;
  std::map<std::string, std::pair<double, double>> parts;
  noise::Observed observed;
};

void StepRunner::make_room() {
  while (in_flight_.size() >= kMostUnread) read_oldest();
}

void StepRunner::wait_where_needed() {
  if (!engine().runs_ahead() || !objective_state_.empty()) read_all();
}

void StepRunner::read_all() {
  check_usable();
  while (!in_flight_.empty()) read_oldest();
}

// Reads the results of the oldest step. A device that failed has lost the arrays, and also the
// weights when one of the runs in flight writes them.
StepNumbers StepRunner::read_numbers() {
  try {
    return in_flight_.front().program->read(*in_flight_.front().numbers);
  } catch (const Error& error) {
    lost_ = error.text();
    const bool writes = std::ranges::any_of(
        in_flight_, [](const InFlight& step) { return step.kind != ProgramKind::accumulate; });
    if (writes) model_->params().lose(error.text());
    in_flight_.clear();
    throw;
  }
}

void StepRunner::read_oldest() {
  const StepNumbers numbers = read_numbers();
  all_requests_ = numbers.control;
  const InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - step.start).count() *
      step.share;
  if (step.kind == ProgramKind::accumulate) return add_micro_batch(numbers, seconds, step.flops);
  const Finished done = finished(step, numbers, seconds);
  if (!numbers.finite) {
    if (spec_.halts) halt(step, done);
    --counters_.updates;
    ++counters_.skipped;
  } else {
    take_observed(done.observed);
  }
  last_loss_ = done.loss;
  publish(step, done);
  if (on_read_) on_read_();
}

// Makes the next arrays of the objective. A sum that is not finite would stay in them for ever.
void StepRunner::take_observed(const noise::Observed& observed) {
  if (objective_state_.empty()) return;
  for (const auto& [name, sums] : observed) {
    if (std::ranges::all_of(sums, [](double x) { return std::isfinite(x); })) continue;
    log(LogLevel::warn,
        "the loss observed a {} that is not finite: the state of objective {} stays", name,
        objective_->name());
    return;
  }
  objective_state_ = objective_->next_state(objective_state_, observed);
}

StepRunner::Finished StepRunner::finished(const InFlight& step, const StepNumbers& numbers,
                                          double seconds) const {
  Finished done{0, numbers.grad_norm, seconds, step.flops, numbers.parts, numbers.observed};
  done.loss = numbers.sum / std::max(numbers.normalizer, 1.0);
  if (step.kind == ProgramKind::apply) {
    const Accumulated& sums = step.sums;
    done.loss = spec_.mean_of_means ? sums.mean_sum / static_cast<double>(sums.batches)
                                    : sums.sum / std::max(sums.normalizer, 1.0);
    done.seconds += sums.seconds;
    done.flops = sums.flops;
    done.parts = sums.parts;
    done.observed = sums.observed;
  }
  return done;
}

void StepRunner::add_micro_batch(const StepNumbers& numbers, double seconds, double flops) {
  Accumulated& sums = accumulated_;
  sums.sum += numbers.sum;
  sums.normalizer += numbers.normalizer;
  sums.mean_sum += numbers.sum / std::max(numbers.normalizer, 1.0);
  for (const auto& [name, part] : numbers.parts) {
    sums.parts[name].first += part.first;
    sums.parts[name].second += part.second;
  }
  for (const auto& [name, own] : numbers.observed) {
    std::vector<double>& sum = sums.observed[name];
    sum.resize(own.size());
    std::transform(own.begin(), own.end(), sum.begin(), sum.begin(), std::plus<>());
  }
  sums.seconds += seconds;
  sums.flops += flops;
}

void StepRunner::publish(const InFlight& step, const Finished& done) {
  const double peak = engine().peak_flops();
  const bool timed = done.seconds > 0;
  StepMetrics metrics;
  metrics.step = static_cast<double>(step.after.step);
  metrics.loss = done.loss;
  metrics.grad_norm = done.grad_norm;
  metrics.lr = step.lr;
  metrics.tokens = static_cast<double>(step.after.tokens);
  metrics.tokens_per_second = timed ? static_cast<double>(step.tokens) / done.seconds : 0.0;
  metrics.mfu = timed && peak > 0 ? done.flops / done.seconds / peak : 0.0;
  metrics.memory = static_cast<double>(engine().i64("memory_used"));
  metrics.compiles = static_cast<double>(engine().i64("compiles"));
  metrics.skipped = static_cast<double>(counters_.skipped);
  metrics.checkpoint_stall_seconds = metrics_.at("checkpoint_stall_seconds");
  metrics.input_wait = step.input_wait;
  metrics.rank_wait = step.rank_wait;
  std::map<std::string, double> values = named_metrics(metrics);
  for (const auto& [name, part] : done.parts)
    values[name] = part.second > 0 ? part.first / part.second : 0.0;
  metrics_.set(values);
}

// Undoes this update and all updates that were started after it, which the program left out.
void StepRunner::halt(const InFlight& step, const Finished& done) {
  counters_ = step.before;
  in_flight_.clear();
  halted_ = nullptr;
  if (accumulated_.batches > 0) {
    accumulated_ = {};
    clear_sums();
  }
  fail_with_hint(
      "lower lr, set clip, look at the data; or set nonfinite = skip", Code::aborted,
      "step {}: loss {} with gradient norm {} is not finite; the weights are as before the step",
      step.after.step, done.loss, done.grad_norm);
}

void StepRunner::restore(RestoredState state) {
  in_flight_.clear();
  halted_ = nullptr;
  model_->params().restore(std::move(state.weights), [&] { arrays_ = std::move(state.arrays); });
  objective_state_ = std::move(state.objective);
  counters_ = state.counters;
  accumulated_ = std::move(state.accumulated);
  lost_.clear();
  {
    const std::lock_guard lock(hyper_mutex_);
    hyper_ = state.hyper;
  }
  metrics_.set({{"step", static_cast<double>(counters_.step)},
                {"tokens", static_cast<double>(counters_.tokens)},
                {"skipped", static_cast<double>(counters_.skipped)}});
}

} // namespace dllm::train

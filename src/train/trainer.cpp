#include "train/trainer.h"

#include "base/error.h"
#include "train/state.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>

namespace dllm::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Padding (segment 0) is not counted.
int64_t count_tokens(const Batch& batch) {
  const Tensor* segments = batch.find("segments");
  if (segments == nullptr || segments->dtype() != DType::i32) return batch.at("ids").count();
  int64_t count = 0;
  for (const int32_t segment : segments->as<int32_t>()) count += segment != 0 ? 1 : 0;
  return count;
}

// The arrays of the loss graph for one batch.
Batch make_feed(Trainer::State& state, const Batch& batch) {
  const model::ModelConfig& config = state.model->config();
  if (state.objective->is_prepared(batch)) return state.objective->feed(batch, config);
  const auto seed = static_cast<uint64_t>(state.options.i64("seed"));
  const int64_t step =
      state.objective->keyed_by_batch() ? state.counters.batches : state.counters.step;
  const noise::PrepareContext context = noise::prepare_context(*state.objective, config);
  if (state.accumulated.rows == 0)
    return state.objective->feed(state.objective->prepare(batch, seed, step, context), config);
  // Micro-batches of one update continue its rows, so that they draw what one large batch would.
  Batch moved = batch;
  const auto [first, total] = batch.global_rows(batch.at("ids").shape()[0]);
  moved.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{first + state.accumulated.rows,
                                                                total + state.accumulated.rows}));
  return state.objective->feed(state.objective->prepare(moved, seed, step, context), config);
}

std::vector<float> make_scalars(const Trainer::State& state) {
  const auto t = static_cast<double>(state.counters.updates + 1);
  const double beta1 = state.options.f64("beta1"), beta2 = state.options.f64("beta2");
  std::vector<float> scalars(kScalarCount);
  scalars[kLr] = static_cast<float>(state.hyper.lr * state.rate.factor(state.counters.updates));
  scalars[kBeta1] = static_cast<float>(beta1);
  scalars[kBeta2] = static_cast<float>(beta2);
  scalars[kEps] = static_cast<float>(state.options.f64("eps"));
  scalars[kWeightDecay] = static_cast<float>(state.hyper.weight_decay);
  scalars[kBias1] = static_cast<float>(1.0 - std::pow(beta1, t));
  scalars[kBias2] = static_cast<float>(1.0 - std::pow(beta2, t));
  scalars[kClip] = state.hyper.clip > 0 ? static_cast<float>(state.hyper.clip) : INFINITY;
  scalars[kEmaDecay] = static_cast<float>(state.options.f64("ema"));
  const Accumulated& sums = state.accumulated;
  scalars[kNormalizer] = static_cast<float>(
      state.mean_of_means() ? static_cast<double>(sums.batches) : sums.normalizer);
  scalars[kLossSum] = static_cast<float>(sums.sum);
  return scalars;
}

struct Finished {
  double loss = 0, grad_norm = 0, lr = 0, seconds = 0;
  bool finite = true;
  int64_t tokens = 0;
  double flops = 0;
  std::map<std::string, std::pair<double, double>> parts;
};

// Counts a step that ran and publishes its numbers.
void finish_step(Trainer::State& state, const Finished& done) {
  ++state.counters.step;
  state.counters.tokens += done.tokens;
  if (done.finite)
    ++state.counters.updates;
  else
    ++state.counters.skipped;
  const double peak = state.engine().peak_flops();
  const std::lock_guard lock(state.metrics_mutex);
  auto& metrics = state.metrics;
  metrics["step"] = static_cast<double>(state.counters.step);
  metrics["loss"] = done.loss;
  metrics["grad_norm"] = done.grad_norm;
  metrics["lr"] = done.lr;
  metrics["tokens"] = static_cast<double>(state.counters.tokens);
  metrics["tokens_per_second"] =
      done.seconds > 0 ? static_cast<double>(done.tokens) / done.seconds : 0.0;
  metrics["mfu"] = done.seconds > 0 && peak > 0 ? done.flops / done.seconds / peak : 0.0;
  metrics["memory"] = static_cast<double>(state.engine().i64("memory_used"));
  metrics["compiles"] = static_cast<double>(state.engine().i64("compiles"));
  metrics["skipped"] = static_cast<double>(state.counters.skipped);
  for (const auto& [name, part] : done.parts)
    metrics[name] = part.second > 0 ? part.first / part.second : 0.0;
}

[[noreturn]] void fail_nonfinite(const Trainer::State& state, double loss, double norm) {
  fail_with_hint(
      "lower lr, set clip, look at the data; or set nonfinite = skip", Code::aborted,
      "step {}: loss {} with gradient norm {} is not finite; the weights are as before the step",
      state.counters.step + 1, loss, norm);
}

void reset_accumulated(Trainer::State& state) {
  state.accumulated = {};
}

} // namespace

Trainer::Trainer(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
                 const Options& options)
    : state_(std::make_unique<State>(std::move(model), std::move(objective), options)) {}
Trainer::~Trainer() = default;

double Trainer::step(const Batch& batch, const Task* task) {
  State& state = *state_;
  state.check_usable();
  if (state.accumulated.batches > 0) {
    fail_with_hint("call apply first", Code::failed_precondition, "{} batches are accumulated",
                   state.accumulated.batches);
  }
  const auto start = Clock::now();
  const Batch feed = make_feed(state, batch);
  const std::vector<float> scalars = make_scalars(state);
  check_task(task);
  const StepNumbers numbers = execute(state, ProgramKind::fused, feed, scalars, task);
  const double loss = numbers.sum / std::max(numbers.normalizer, 1.0);
  if (!numbers.finite && state.options.str("nonfinite") == "stop")
    fail_nonfinite(state, loss, numbers.grad_norm);
  ++state.counters.batches;
  finish_step(state, {loss, numbers.grad_norm, scalars[kLr], seconds_since(start), numbers.finite,
                      count_tokens(batch), flops_of_last_run(state), numbers.parts});
  return loss;
}

void Trainer::accumulate(const Batch& batch, const Task* task) {
  State& state = *state_;
  state.check_usable();
  const auto start = Clock::now();
  const Batch feed = make_feed(state, batch);
  state.allocate_sums();
  check_task(task);
  const StepNumbers numbers = execute(state, ProgramKind::accumulate, feed, {}, task);
  Accumulated& sums = state.accumulated;
  ++state.counters.batches;
  ++sums.batches;
  sums.rows += batch.global_rows(batch.at("ids").shape()[0]).second;
  sums.tokens += count_tokens(batch);
  sums.sum += numbers.sum;
  sums.normalizer += numbers.normalizer;
  sums.mean_sum += numbers.sum / std::max(numbers.normalizer, 1.0);
  sums.seconds += seconds_since(start);
  sums.flops += flops_of_last_run(state);
  for (const auto& [name, part] : numbers.parts) {
    sums.parts[name].first += part.first;
    sums.parts[name].second += part.second;
  }
}

double Trainer::apply(const Task* task) {
  State& state = *state_;
  state.check_usable();
  const Accumulated sums = state.accumulated;
  if (sums.batches == 0)
    fail_with_hint("call accumulate first", Code::failed_precondition, "nothing is accumulated");
  const auto start = Clock::now();
  const std::vector<float> scalars = make_scalars(state);
  check_task(task);
  const StepNumbers numbers = execute(state, ProgramKind::apply, {}, scalars, task);
  const double loss = state.mean_of_means() ? sums.mean_sum / static_cast<double>(sums.batches)
                                            : sums.sum / std::max(sums.normalizer, 1.0);
  reset_accumulated(state);
  if (!numbers.finite && state.options.str("nonfinite") == "stop")
    fail_nonfinite(state, loss, numbers.grad_norm);
  finish_step(state, {loss, numbers.grad_norm, scalars[kLr], sums.seconds + seconds_since(start),
                      numbers.finite, sums.tokens, sums.flops, sums.parts});
  return loss;
}

int64_t Trainer::accumulated() const {
  return state_->accumulated.batches;
}
void Trainer::sync() {
  state_->check_usable();
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

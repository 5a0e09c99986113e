#include "train/in_flight.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace dllm::train {
namespace {

using Clock = std::chrono::steady_clock;

// Padding (segment 0) is not counted.
int64_t count_tokens(const Batch& batch) {
  const Tensor* segments = batch.find("segments");
  if (segments == nullptr || segments->dtype() != DType::i32) return batch.at("ids").count();
  int64_t count = 0;
  for (const int32_t segment : segments->as<int32_t>()) count += segment != 0 ? 1 : 0;
  return count;
}

// Micro-batches of one update are rows of one large batch, and draw what that would.
Batch as_part_of_update(const Trainer::State& state, const Batch& batch) {
  const auto [first, total] = batch.global_rows(batch.at("ids").shape()[0]);
  const Accumulated& sums = state.accumulated;
  int64_t all = total + sums.rows;
  if (state.objective->spreads_over_rows()) {
    const int64_t most = state.options.i64("accumulate");
    if (sums.batches >= most) {
      fail_with_hint("set the trainer option accumulate to the number of batches of an update",
                     Code::failed_precondition,
                     "batch {} of an update of {}: objective {} spreads its times over the rows of "
                     "the whole update",
                     sums.batches + 1, most, state.objective->name());
    }
    if (sums.rows != sums.batches * total) {
      fail_with_hint("give batches of equal size, or time_sampling = uniform",
                     Code::invalid_argument,
                     "batch {} of an update has {} rows, those before it have {} together: "
                     "objective {} spreads its times over the rows of the whole update",
                     sums.batches + 1, total, sums.rows, state.objective->name());
    }
    all = total * most;
  }
  Batch moved = batch;
  moved.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{first + sums.rows, all}));
  return moved;
}

// The arrays of the loss graph for one batch: all of an update, or a part of it.
Batch make_feed(Trainer::State& state, const Batch& batch, bool is_part) {
  const model::ModelConfig& config = state.model->config();
  if (state.objective->is_prepared(batch)) return state.objective->feed(batch, config);
  const auto seed = static_cast<uint64_t>(state.options.i64("seed"));
  const int64_t step =
      state.objective->keyed_by_batch() ? state.counters.batches : state.counters.step;
  const noise::PrepareContext context = noise::prepare_context(*state.objective, config);
  const Batch rows = is_part ? as_part_of_update(state, batch) : batch;
  return state.objective->feed(state.objective->prepare(rows, seed, step, context), config);
}

std::vector<float> make_scalars(const Trainer::State& state) {
  const auto t = static_cast<double>(state.counters.updates + 1);
  const double beta1 = state.options.f64("beta1"), beta2 = state.options.f64("beta2");
  std::vector<float> scalars(kScalarCount);
  scalars[kLr] = static_cast<float>(state.hyper.lr * state.rate.factor(state.counters.updates, state.clock));
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

// One apart from what is in flight already. Seconds until a step is read are those of all steps
// that were in flight with it.
InFlight begin(const Trainer::State& state, ProgramKind kind) {
  InFlight step;
  step.kind = kind;
  step.before = step.after = state.counters;
  step.start = Clock::now();
  step.share = 1.0 / static_cast<double>(1 + state.in_flight.size());
  return step;
}

void push(Trainer::State& state, InFlight step) {
  state.counters = step.after;
  state.in_flight.push_back(std::move(step));
}

// What a step did, in numbers for people.
struct Finished {
  double loss = 0, grad_norm = 0, seconds = 0, flops = 0;
  std::map<std::string, std::pair<double, double>> parts;
};

void publish(Trainer::State& state, const InFlight& step, const Finished& done) {
  const double peak = state.engine().peak_flops();
  const std::lock_guard lock(state.metrics_mutex);
  auto& metrics = state.metrics;
  metrics["step"] = static_cast<double>(step.after.step);
  metrics["loss"] = done.loss;
  metrics["grad_norm"] = done.grad_norm;
  metrics["lr"] = step.lr;
  metrics["tokens"] = static_cast<double>(step.after.tokens);
  metrics["tokens_per_second"] =
      done.seconds > 0 ? static_cast<double>(step.tokens) / done.seconds : 0.0;
  metrics["mfu"] = done.seconds > 0 && peak > 0 ? done.flops / done.seconds / peak : 0.0;
  metrics["memory"] = static_cast<double>(state.engine().i64("memory_used"));
  metrics["compiles"] = static_cast<double>(state.engine().i64("compiles"));
  metrics["skipped"] = static_cast<double>(state.counters.skipped);
  for (const auto& [name, part] : done.parts)
    metrics[name] = part.second > 0 ? part.first / part.second : 0.0;
}

void add_micro_batch(Accumulated& sums, const StepNumbers& numbers) {
  sums.sum += numbers.sum;
  sums.normalizer += numbers.normalizer;
  sums.mean_sum += numbers.sum / std::max(numbers.normalizer, 1.0);
  for (const auto& [name, part] : numbers.parts) {
    sums.parts[name].first += part.first;
    sums.parts[name].second += part.second;
  }
}

// The program left this update out and all that were started behind it: they have not been.
[[noreturn]] void halt(Trainer::State& state, const InFlight& step, double loss, double norm) {
  state.counters = step.before;
  state.in_flight.clear();
  state.halted = nullptr;
  if (state.accumulated.batches > 0) {
    state.accumulated = {};
    for (Slot& slot : state.slots) slot.sums = nullptr;
  }
  fail_with_hint(
      "lower lr, set clip, look at the data; or set nonfinite = skip", Code::aborted,
      "step {}: loss {} with gradient norm {} is not finite; the weights are as before the step",
      step.after.step, loss, norm);
}

// Of the oldest step. A device that failed took the trainer's arrays with it, and the weights when
// one of the runs in flight writes them; after any other failure of the host the step stays in
// flight and can be read again.
StepNumbers read_or_lose(Trainer::State& state) {
  try {
    return read_numbers(state.in_flight.front().run, state.agreed);
  } catch (const Error& error) {
    state.lost = error.text();
    const bool writes = std::any_of(state.in_flight.begin(), state.in_flight.end(),
                                    [](const InFlight& step) {
                                      return step.kind != ProgramKind::accumulate;
                                    });
    if (writes) state.model->params().lose(error.text());
    state.in_flight.clear();
    throw;
  }
}

} // namespace

void settle_oldest(Trainer::State& state) {
  const StepNumbers numbers = read_or_lose(state);
  const InFlight step = std::move(state.in_flight.front());
  state.in_flight.pop_front();
  const double seconds =
      std::chrono::duration<double>(Clock::now() - step.start).count() * step.share;
  if (step.kind == ProgramKind::accumulate) {
    Accumulated& sums = state.accumulated;
    add_micro_batch(sums, numbers);
    sums.seconds += seconds;
    sums.flops += step.run.flops;
    return;
  }
  Finished done{0, numbers.grad_norm, seconds, step.run.flops, numbers.parts};
  done.loss = numbers.sum / std::max(numbers.normalizer, 1.0);
  if (step.kind == ProgramKind::apply) {
    const Accumulated& sums = step.sums;
    done.loss = state.mean_of_means() ? sums.mean_sum / static_cast<double>(sums.batches)
                                      : sums.sum / std::max(sums.normalizer, 1.0);
    done.seconds += sums.seconds;
    done.flops = sums.flops;
    done.parts = sums.parts;
  }
  if (!numbers.finite) {
    if (state.options.str("nonfinite") == "stop") halt(state, step, done.loss, done.grad_norm);
    --state.counters.updates;
    ++state.counters.skipped;
  }
  state.last_loss = done.loss;
  publish(state, step, done);
  if (state.on_step) state.on_step();
}

void settle_all(Trainer::State& state) {
  while (!state.in_flight.empty()) settle_oldest(state);
}

void make_room(Trainer::State& state) {
  while (state.in_flight.size() >= kMostUnread) settle_oldest(state);
}

void start_fused(Trainer::State& state, const Batch& batch, const Task* task) {
  InFlight step = begin(state, ProgramKind::fused);
  const Batch feed = make_feed(state, batch, false);
  const std::vector<float> scalars = make_scalars(state);
  check_task(task);
  step.run = execute(state, ProgramKind::fused, feed, scalars, task);
  step.lr = scalars[kLr];
  step.tokens = count_tokens(batch);
  step.after.tokens += step.tokens;
  ++step.after.batches;
  ++step.after.step;
  ++step.after.updates;
  push(state, std::move(step));
}

void start_accumulate(Trainer::State& state, const Batch& batch, const Task* task) {
  InFlight step = begin(state, ProgramKind::accumulate);
  const Batch feed = make_feed(state, batch, true);
  state.allocate_sums();
  check_task(task);
  step.run = execute(state, ProgramKind::accumulate, feed, {}, task);
  ++step.after.batches;
  Accumulated& sums = state.accumulated;
  ++sums.batches;
  sums.rows += batch.global_rows(batch.at("ids").shape()[0]).second;
  sums.drawn += state.objective->is_prepared(batch) ? 0 : 1;
  sums.tokens += count_tokens(batch);
  push(state, std::move(step));
}

void start_apply(Trainer::State& state, const Task* task) {
  const int64_t whole = state.options.i64("accumulate");
  if (state.objective->spreads_over_rows() && state.accumulated.drawn > 0 &&
      state.accumulated.batches < whole) {
    fail_with_hint("accumulate the rest, or set accumulate to the number of batches of an update",
                   Code::failed_precondition,
                   "{} of {} batches are accumulated: objective {} spreads its times over the rows "
                   "of the whole update",
                   state.accumulated.batches, whole, state.objective->name());
  }
  InFlight step = begin(state, ProgramKind::apply);
  step.sums = state.accumulated;
  const std::vector<float> scalars = make_scalars(state);
  check_task(task);
  step.run = execute(state, ProgramKind::apply, {}, scalars, task);
  state.accumulated = {};
  step.lr = scalars[kLr];
  step.tokens = step.sums.tokens;
  step.after.tokens += step.tokens;
  ++step.after.step;
  ++step.after.updates;
  push(state, std::move(step));
}

} // namespace dllm::train

#include "train/step_runner.h"

#include "base/error.h"
#include "graph/engine.h"
#include "runtime/feed.h"
#include "train/batch_feed.h"
#include "train/prepare_model.h"

#include <algorithm>
#include <cmath>

namespace dllm::train {
namespace {

using StepClock = std::chrono::steady_clock;

// Steps and micro-batches that may be unread between two calls of the trainer.
constexpr size_t kMostUnread = 2;
constexpr size_t kKeptPrograms = 8;

std::shared_ptr<model::Model> prepared(std::shared_ptr<model::Model> model, const noise::Objective& objective,
                                       const Options& options) {
  prepare_model(*model, objective, options);
  return model;
}

}  // namespace

StepRunner::StepRunner(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective, const Options& options)
    : objective_(std::move(objective)),
      options_(options),
      rate_(learning_rate_of(options)),
      hyper_(hyper_of(options)),
      spec_{.options = options},
      programs_(kKeptPrograms),
      own_requests_(kControlCount),
      all_requests_(kControlCount) {
  optimizer_of(options);  // wrong options leave the model as it is
  model_ = prepared(std::move(model), *objective_, options);
  spec_ = program_spec(*model_, *objective_, options);
  const std::vector<graph::BufferRef> weights = model_->params().snapshot();
  for (const StateEntry& entry : spec_.state) {
    switch (entry.use) {
      case StateUse::optimizer:
        arrays_.push_back(engine().upload(Tensor(DType::f32, entry.layout.shape())));
        break;
      case StateUse::average:
        arrays_.push_back(engine().upload(weights[spec_.trained[entry.parameter]]->read()));
        break;
      case StateUse::sum: arrays_.push_back(nullptr); break;
    }
  }
}

void StepRunner::check_usable() const {
  if (lost_.empty()) return;
  fail_with_hint("restore the last checkpoint", Code::aborted, "the trainer's state was lost: {}", lost_);
}

Hyper StepRunner::hyper() const {
  const std::lock_guard lock(hyper_mutex_);
  return hyper_;
}

void StepRunner::set_hyper(double Hyper::*member, double value) {
  const std::lock_guard lock(hyper_mutex_);
  hyper_.*member = value;
}

std::vector<graph::BufferRef> StepRunner::averages() const {
  std::vector<graph::BufferRef> made(model_->params().physical().size());
  model_->params().while_whole([&] {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (spec_.state[i].use == StateUse::average) made[spec_.trained[spec_.state[i].parameter]] = arrays_[i];
    }
  });
  return made;
}

// --- starting ---

Batch StepRunner::feed_of(const Batch& batch, bool is_part) const {
  const NoiseKey key{static_cast<uint64_t>(options_.i64("seed")),
                     objective_->keyed_by_batch() ? counters_.batches : counters_.step};
  const UpdatePart part{accumulated_.batches, accumulated_.rows, options_.i64("accumulate")};
  return make_feed(*objective_, model_->config(), batch, key, is_part ? &part : nullptr);
}

std::vector<float> StepRunner::scalars() const {
  const Hyper hyper = this->hyper();
  const UpdateInfo info{hyper.lr * rate_.factor(counters_.updates, clock_), hyper.weight_decay, counters_.updates + 1};
  std::vector<float> made;
  for (const double value : spec_.optimizer->step_scalars(options_, info)) made.push_back(static_cast<float>(value));
  const size_t own = spec_.optimizer->scalars.size();
  if (made.size() != own) fail(Code::internal, "{} scalars of {}", made.size(), own);
  made.resize(own + kSharedScalarCount);
  made[own + kClip] = hyper.clip > 0 ? static_cast<float>(hyper.clip) : INFINITY;
  made[own + kEmaDecay] = static_cast<float>(options_.f64("ema"));
  made[own + kNormalizer] = static_cast<float>(
      spec_.mean_of_means ? static_cast<double>(accumulated_.batches) : accumulated_.normalizer);
  made[own + kLossSum] = static_cast<float>(accumulated_.sum);
  return made;
}

// Seconds until a step is read are those of all steps that were in flight with it.
StepRunner::InFlight StepRunner::begin(ProgramKind kind) const {
  InFlight step;
  step.kind = kind;
  step.before = step.after = counters_;
  step.start = StepClock::now();
  step.share = 1.0 / static_cast<double>(1 + in_flight_.size());
  const double lr = hyper().lr * rate_.factor(counters_.updates, clock_);
  step.lr = static_cast<double>(static_cast<float>(lr));  // as the program takes it
  return step;
}

// The program is compiled when the feed has a new shape.
void StepRunner::launch(InFlight& step, const Batch& feed, const std::vector<float>& scalars, const Task* task) {
  check_task(task);
  step.program = programs_.get({step.kind, runtime::feed_signature(feed)}, [&] {
    return std::make_shared<const TrainProgram>(spec_, step.kind, feed);
  });
  check_task(task);
  try {
    step.numbers =
        step.program->run({model_->params(), arrays_, halted_, scalars, own_requests_, feed}, task);
  } catch (const graph::StateLost& error) {
    lost_ = error.text();
    throw;
  }
  step.flops = step.program->flops(feed);
}

void StepRunner::push(InFlight step) {
  counters_ = step.after;
  in_flight_.push_back(std::move(step));
  wait_where_needed();
}

void StepRunner::start_step(const Batch& batch, const Task* task) {
  check_usable();
  if (accumulated_.batches > 0) {
    fail_with_hint("call apply first", Code::failed_precondition, "{} batches are accumulated", accumulated_.batches);
  }
  make_room();
  InFlight step = begin(ProgramKind::fused);
  const Batch feed = feed_of(batch, false);
  launch(step, feed, scalars(), task);
  step.tokens = count_tokens(batch);
  step.after.tokens += step.tokens;
  ++step.after.batches;
  ++step.after.step;
  ++step.after.updates;
  push(std::move(step));
}

void StepRunner::start_accumulate(const Batch& batch, const Task* task) {
  check_usable();
  make_room();
  InFlight step = begin(ProgramKind::accumulate);
  const Batch feed = feed_of(batch, true);
  allocate_sums();
  launch(step, feed, {}, task);
  ++step.after.batches;
  ++accumulated_.batches;
  accumulated_.rows += batch.global_rows(batch.at("ids").shape()[0]).second;
  accumulated_.drawn += objective_->is_prepared(batch) ? 0 : 1;
  accumulated_.tokens += count_tokens(batch);
  push(std::move(step));
}

// The update is divided by what all its micro-batches counted: they are read first.
void StepRunner::start_apply(const Task* task) {
  read_all();
  if (accumulated_.batches == 0)
    fail_with_hint("call accumulate first", Code::failed_precondition, "nothing is accumulated");
  const int64_t whole = options_.i64("accumulate");
  if (objective_->spreads_over_rows() && accumulated_.drawn > 0 && accumulated_.batches < whole) {
    fail_with_hint("accumulate the rest, or set accumulate to the number of batches of an update",
                   Code::failed_precondition,
                   "{} of {} batches are accumulated: objective {} spreads its times over the rows of the whole update",
                   accumulated_.batches, whole, objective_->name());
  }
  InFlight step = begin(ProgramKind::apply);
  step.sums = accumulated_;
  launch(step, {}, scalars(), task);
  accumulated_ = {};
  step.tokens = step.sums.tokens;
  step.after.tokens += step.tokens;
  ++step.after.step;
  ++step.after.updates;
  push(std::move(step));
}

void StepRunner::allocate_sums() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum && arrays_[i] == nullptr)
      arrays_[i] = engine().upload(Tensor(DType::f32, spec_.state[i].layout.shape()));
  }
}

void StepRunner::clear_sums() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum) arrays_[i] = nullptr;
  }
}

// --- reading ---

// What a step did, in numbers for people.
struct StepRunner::Finished {
  double loss = 0, grad_norm = 0, seconds = 0, flops = 0;
  std::map<std::string, std::pair<double, double>> parts;
};

void StepRunner::make_room() {
  while (in_flight_.size() >= kMostUnread) read_oldest();
}

void StepRunner::wait_where_needed() {
  if (!engine().runs_ahead()) read_all();
}

void StepRunner::read_all() {
  check_usable();
  while (!in_flight_.empty()) read_oldest();
}

// Of the oldest step. A device that failed took the arrays with it, and the weights when one of the runs in flight
// writes them.
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
  const double seconds = std::chrono::duration<double>(StepClock::now() - step.start).count() * step.share;
  if (step.kind == ProgramKind::accumulate) return add_micro_batch(numbers, seconds, step.flops);
  const Finished done = finished(step, numbers, seconds);
  if (!numbers.finite) {
    if (spec_.halts) halt(step, done);
    --counters_.updates;
    ++counters_.skipped;
  }
  last_loss_ = done.loss;
  publish(step, done);
  if (on_read_) on_read_();
}

StepRunner::Finished StepRunner::finished(const InFlight& step, const StepNumbers& numbers, double seconds) const {
  Finished done{0, numbers.grad_norm, seconds, step.flops, numbers.parts};
  done.loss = numbers.sum / std::max(numbers.normalizer, 1.0);
  if (step.kind == ProgramKind::apply) {
    const Accumulated& sums = step.sums;
    done.loss = spec_.mean_of_means ? sums.mean_sum / static_cast<double>(sums.batches)
                                    : sums.sum / std::max(sums.normalizer, 1.0);
    done.seconds += sums.seconds;
    done.flops = sums.flops;
    done.parts = sums.parts;
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
  sums.seconds += seconds;
  sums.flops += flops;
}

void StepRunner::publish(const InFlight& step, const Finished& done) {
  const double peak = engine().peak_flops();
  const bool timed = done.seconds > 0;
  std::map<std::string, double> values = {
      {"step", static_cast<double>(step.after.step)},
      {"loss", done.loss},
      {"grad_norm", done.grad_norm},
      {"lr", step.lr},
      {"tokens", static_cast<double>(step.after.tokens)},
      {"tokens_per_second", timed ? static_cast<double>(step.tokens) / done.seconds : 0.0},
      {"mfu", timed && peak > 0 ? done.flops / done.seconds / peak : 0.0},
      {"memory", static_cast<double>(engine().i64("memory_used"))},
      {"compiles", static_cast<double>(engine().i64("compiles"))},
      {"skipped", static_cast<double>(counters_.skipped)},
  };
  for (const auto& [name, part] : done.parts) values[name] = part.second > 0 ? part.first / part.second : 0.0;
  metrics_.set(values);
}

// The program left this update out and all that were started behind it: they have not been.
void StepRunner::halt(const InFlight& step, const Finished& done) {
  counters_ = step.before;
  in_flight_.clear();
  halted_ = nullptr;
  if (accumulated_.batches > 0) {
    accumulated_ = {};
    clear_sums();
  }
  fail_with_hint("lower lr, set clip, look at the data; or set nonfinite = skip", Code::aborted,
                 "step {}: loss {} with gradient norm {} is not finite; the weights are as before the step",
                 step.after.step, done.loss, done.grad_norm);
}

void StepRunner::restore(RestoredState state) {
  in_flight_.clear();
  halted_ = nullptr;
  model_->params().restore(std::move(state.weights), [&] { arrays_ = std::move(state.arrays); });
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

}  // namespace dllm::train

#include "base/error.h"
#include "ckpt/checkpoint_folder.h"
#include "train/checkpoint.h"
#include "train/in_flight.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <numbers>

namespace dllm::train {
namespace {

using Clock = std::chrono::steady_clock;

Event step_event(const Trainer::State& state) {
  Event event(EventKind::train_step);
  const std::lock_guard lock(state.metrics_mutex);
  for (const auto& [key, value] : state.metrics) {
    const bool whole = key == "step" || key == "tokens" || key == "memory" || key == "compiles" ||
                       key == "skipped";
    if (whole)
      event.set(key, static_cast<int64_t>(value));
    else
      event.set(key, value);
  }
  return event;
}

// One run: sends events, acts on the wishes that all ranks agreed on. Steps may be told about later
// than they are started; before a checkpoint and at the end all have been.
class Run {
public:
  Run(Trainer& trainer, BatchSource& source, int64_t steps, const EventFn& fn, Task* task)
      : trainer_(trainer), state_(trainer.state()), source_(source), steps_(steps), fn_(fn),
        task_(task) {
    state_.on_step = [this] { tell_step(); };
  }
  ~Run() {
    state_.on_step = nullptr;
    state_.clock = 0;
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool go() {
    while (done_ < steps_ && !stopped_ && sink_error_ == nullptr && !over_budget()) {
      make_wishes();
      if (!take_step()) break;
      ++done_;
      if (state_.control[kCheckpoint] > 0 || wants_sync()) trainer_.sync();
      const bool wanted = state_.agreed[kCheckpoint] > 0, enough = state_.agreed[kStop] > 0;
      state_.agreed.assign(kControlCount, 0);
      if (wanted) save();
      if (enough || should_stop(task_)) break;
    }
    trainer_.sync();
    const bool cancelled = done_ < steps_ && should_stop(task_);
    if (done_ > 0) save();
    finish_sinks();
    state_.control.assign(kControlCount, 0);
    if (sink_error_ != nullptr) std::rethrow_exception(sink_error_);
    if (cancelled) check_task(task_);
    return done_ == steps_;
  }

private:
  // Also moves the clock that the schedule follows.
  bool over_budget() {
    const int64_t tokens = state_.options.i64("tokens");
    if (tokens > 0 && state_.counters.tokens >= tokens) return true;
    if (budget_ <= 0) return false;
    state_.clock = std::min(seconds() / budget_, 1.0);
    return state_.clock >= 1.0 && done_ > 0;
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  Progress progress() const {
    const int64_t total = steps_ < kUnknown ? begin_ + steps_ : 0;
    return {begin_ + told_, total, seconds(), told_, budget_};
  }

  // So that a callback finds the trainer at the step it is told of.
  bool wants_sync() const {
    const int64_t every = state_.options.i64("sync_every");
    return every > 0 && state_.counters.step % every == 0;
  }

  // This process's wishes for the coming step; all act on the sum after it.
  void make_wishes() {
    const int64_t every = state_.options.i64("save_every");
    const int64_t next = state_.counters.step + 1;
    state_.control[kStop] = should_stop(task_) ? 1 : 0;
    state_.control[kCheckpoint] = every > 0 && next % every == 0 ? 1 : 0;
    state_.control[kError] = 0;
    state_.control[kStep] = static_cast<int32_t>(next);
  }

  // False when the task stopped the step before the update began: it did not happen. Micro-batches
  // that were added stay; the batch that was being worked on is the next one again.
  bool take_step() {
    const int64_t batches = state_.options.i64("accumulate");
    const bool whole = batches == 1 && trainer_.accumulated() == 0;
    while (!whole && trainer_.accumulated() < batches) {
      if (!unless_stopped([&](const Batch& batch) { trainer_.accumulate(batch, task_); }))
        return false;
    }
    if (whole)
      return unless_stopped([&](const Batch& batch) { trainer_.start_step(batch, task_); });
    return finished([&] { trainer_.start_apply(task_); });
  }

  template <class F> bool unless_stopped(const F& work) {
    const int64_t position = source_.position();
    const Batch batch = next_batch();
    if (finished([&] { work(batch); })) return true;
    source_.seek(position);
    return false;
  }

  // Only the exception by which the task stops the work is taken for an answer.
  template <class F> bool finished(const F& work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      const bool stop = error.code() == Code::cancelled || error.code() == Code::deadline_exceeded;
      if (!stop || !should_stop(task_) || !state_.lost.empty()) throw;
      return false;
    }
  }

  Batch next_batch() {
    std::optional<Batch> batch = source_.next();
    if (!batch) {
      trainer_.sync();
      if (done_ > 0) save();
      finish_sinks();
      fail_with_hint("give more data, or more epochs to the loader", Code::out_of_range,
                     "the data ended after {} of {} steps", done_, steps_);
    }
    return *std::move(batch);
  }

  void save() {
    const std::string& root = state_.options.str("root");
    if (root.empty() || saved_step_ == state_.counters.step) return;
    trainer_.sync();
    Options options(checkpoint_schema());
    options.set_i64("keep_last", state_.options.i64("keep_last"));
    options.set_i64("overwrite",
                    1); // a run that goes on from an older checkpoint passes its former ones
    const std::string dir = save_checkpoint(trainer_, &source_, root, options);
    saved_step_ = state_.counters.step;
    tell(Event(EventKind::checkpoint).set("step", state_.counters.step).set("dir", dir));
  }

  void tell_step() {
    ++told_;
    if (task_ != nullptr) task_->set_progress(told_, steps_);
    tell(step_event(state_));
  }

  // A step that a sink could not write down is done all the same: the run ends behind it, with its
  // checkpoint, and fails then. The callback gets the event of the step.
  template <class F> void each_sink(F&& f) {
    for (const auto& sink : state_.sinks) {
      try {
        f(*sink);
      } catch (const Error&) {
        if (sink_error_ == nullptr) sink_error_ = std::current_exception();
      }
    }
  }
  void finish_sinks() {
    each_sink([](Sink& sink) { sink.finish(); });
  }

  // A callback that said stop hears of no step more; sinks do, as these steps were taken too.
  void tell(const Event& event) {
    each_sink([&](Sink& sink) { sink.write(event, progress()); });
    if (!fn_ || (stopped_ && event.kind() == EventKind::train_step)) return;
    const Answer answer = fn_(event);
    if (answer == Answer::fail) {
      finish_sinks();
      fail(Code::callback_failed, "the callback of the run failed at step {}",
           std::get<int64_t>(*event.find("step")));
    }
    stopped_ = stopped_ || answer == Answer::stop;
  }

  Trainer& trainer_;
  Trainer::State& state_;
  BatchSource& source_;
  int64_t steps_;
  const EventFn& fn_;
  Task* task_;
  static constexpr int64_t kUnknown = int64_t{1} << 40; // more steps than any run takes
  const double budget_ = 60 * state_.options.f64("minutes"); // seconds
  Clock::time_point start_ = Clock::now();
  const int64_t begin_ = state_.counters.step;
  int64_t done_ = 0; // started
  int64_t told_ = 0; // read, and told about
  int64_t saved_step_ = -1;
  bool stopped_ = false;
  std::exception_ptr sink_error_; // the first
};

} // namespace

bool Trainer::run(BatchSource& source, int64_t steps, const EventFn& fn, Task* task) {
  check_task(task);
  return Run(*this, source, steps, fn, task).go();
}

double Trainer::eval(BatchSource& source, int64_t max_batches, Task* task) {
  constexpr uint64_t kEvalSeed =
      0x6576616C; // "eval": the same noise for every model and every trainer
  State& state = *state_;
  sync();
  noise::LossValue total;
  std::vector<double> means;
  for (int64_t i = 0; i < max_batches; ++i) {
    check_task(task);
    const int64_t position = source.position();
    const std::optional<Batch> batch = source.next();
    if (!batch) break;
    const noise::LossValue one = state.evaluator.run(*batch, kEvalSeed, position, task);
    total.sum += one.sum;
    total.normalizer += one.normalizer;
    means.push_back(one.mean());
    if (task != nullptr) task->set_progress(i + 1, max_batches);
  }
  if (means.empty()) fail(Code::out_of_range, "the data holds not one batch to evaluate");
  double spread = 0;
  for (const double mean : means) spread += (mean - total.mean()) * (mean - total.mean());
  const auto count = static_cast<double>(means.size());
  Event event(EventKind::eval);
  event.set("step", state.counters.step).set("loss", total.mean());
  event.set("stderr", count > 1 ? std::sqrt(spread / (count - 1) / count) : 0.0);
  // Comparable between tokenizers, which the loss of a token is not.
  const double bytes = source.bytes_per_token();
  if (bytes > 0) event.set("bits_per_byte", total.mean() / std::numbers::ln2 / bytes);
  for (const auto& sink : state.sinks) sink->write(event, {});
  return total.mean();
}

} // namespace dllm::train

#include "base/error.h"
#include "base/named_table.h"
#include "ckpt/checkpoint_folder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_save.h"
#include "train/step/step_metrics.h"
#include "train/trainer_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {
namespace {

using Clock = std::chrono::steady_clock;

Event step_event(const Metrics& metrics) {
  Event event(EventKind::train_step);
  for (const auto& [key, value] : metrics.all()) {
    const StepMetric* row = find_named(step_metrics(), key, &StepMetric::name);
    if (row != nullptr && row->is_integer)
      event.set(key, static_cast<int64_t>(value));
    else
      event.set(key, value);
  }
  return event;
}

// Lets the source make batches ahead while this object lives.
class ReadingAhead {
public:
  ReadingAhead(BatchSource& source, int64_t most) : source_(source) { source_.start_ahead(most); }
  ~ReadingAhead() { source_.stop_ahead(); }
  ReadingAhead(const ReadingAhead&) = delete;
  ReadingAhead& operator=(const ReadingAhead&) = delete;

private:
  BatchSource& source_;
};

// One run. It sends events and acts on the requests of all processes. The event of a step may be
// sent after later steps have started. Before a checkpoint and at the end all events have been
// sent.
class Run {
public:
  Run(Trainer& trainer, BatchSource& source, int64_t steps, const EventFn& fn, Task* task)
      : trainer_(trainer), state_(trainer.state()), runner_(state_.runner), source_(source),
        steps_(steps), fn_(fn), task_(task), step_task_(in_processes() ? nullptr : task) {
    const Options& options = runner_.options();
    save_every_ = interval_steps("save_every", options.f64("save_every"), options.i64("steps"));
    sync_every_ = interval_steps("sync_every", options.f64("sync_every"), options.i64("steps"));
    runner_.on_read([this] { send_step(); });
  }
  ~Run() {
    if (save_) state_.save.wait_until_idle(); // a run that fails leaves no unfinished write
    runner_.on_read(nullptr);
    runner_.set_clock(0);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool go() {
    const int64_t batches = std::min(runner_.options().i64("accumulate"), kUnknown);
    const ReadingAhead ahead(source_, std::min(steps_, kUnknown / batches) * batches);
    while (done_ < steps_ && goes_on()) {
      make_requests();
      if (!take_step()) break;
      ++done_;
      if (runner_.requested_here(kCheckpoint) > 0 || wants_sync()) runner_.read_all();
      const bool checkpoint = runner_.requested(kCheckpoint) > 0,
                 enough = runner_.requested(kStop) > 0;
      runner_.clear_requested();
      look_at_save();
      if (checkpoint) save();
      if (enough || should_stop(step_task_)) break;
    }
    runner_.read_all();
    const bool cancelled = done_ < steps_ && (should_stop(step_task_) || cancelled_by_ >= 0);
    if (done_ > 0) save_last();
    finish_sinks();
    runner_.clear_requests();
    if (sink_error_ != nullptr) std::rethrow_exception(sink_error_);
    if (cancelled) fail_cancelled();
    return done_ == steps_;
  }

private:
  // The request of one process before a step.
  struct StepRequest {
    double clock = 0; // used share of the budget of minutes
    int32_t ends = 0;
    int32_t is_cancelled = 0;
    int64_t step = 0; // step of the trainer
  };

  bool in_processes() const { return runner_.engine().processes() > 1; }

  // Returns true when another step follows. All processes take the same steps: a process that ends
  // the run ends it for all, and the clock is the first process's. A step of several processes is
  // not cancelled; all processes check for the end after it.
  bool goes_on() {
    StepRequest request;
    request.clock = budget_ > 0 ? std::min(seconds() / budget_, 1.0) : 0;
    request.ends = stopped_ || sink_error_ != nullptr ? 1 : 0;
    if (in_processes()) {
      request.is_cancelled = should_stop(task_) ? 1 : 0;
      request.step = runner_.counters().step;
      request = agreed(request);
    }
    if (budget_ > 0) runner_.set_clock(request.clock);
    const int64_t tokens = runner_.options().i64("tokens");
    const bool over_budget = (tokens > 0 && runner_.counters().tokens >= tokens) ||
                             (budget_ > 0 && request.clock >= 1.0 && done_ > 0);
    return request.ends == 0 && request.is_cancelled == 0 && !over_budget;
  }

  StepRequest agreed(const StepRequest& own) {
    const std::string word(reinterpret_cast<const char*>(&own), sizeof own);
    const std::vector<std::string> all = runner_.engine().exchange(word);
    StepRequest made = request_of(all[0]);
    for (size_t process = 0; process < all.size(); ++process) {
      const StepRequest request = request_of(all[process]);
      if (request.step != made.step) { // one that found no checkpoint, or an older one
        fail_with_hint(
            "all processes must continue from the same checkpoint: do they see the same folder?",
            Code::failed_precondition, "rank {} is at step {}, rank 0 at step {}", process,
            request.step, made.step);
      }
      made.ends |= request.ends;
      made.is_cancelled |= request.is_cancelled;
      if (request.is_cancelled != 0 && cancelled_by_ < 0)
        cancelled_by_ = static_cast<int64_t>(process);
    }
    return made;
  }
  static StepRequest request_of(const std::string& word) {
    StepRequest request;
    if (word.size() != sizeof request) {
      fail_with_hint("do all processes see the same files?", Code::failed_precondition,
                     "a rank makes another call, while the other ranks begin a step");
    }
    std::memcpy(&request, word.data(), sizeof request);
    return request;
  }

  [[noreturn]] void fail_cancelled() {
    check_task(task_);
    fail(Code::cancelled, "rank {} was cancelled", cancelled_by_);
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  Progress progress() const {
    const int64_t total = steps_ < kUnknown ? begin_ + steps_ : 0;
    return {begin_ + read_, total, seconds(), read_, budget_};
  }

  // True: the next callback must find the trainer at the step of its event.
  bool wants_sync() const { return sync_every_ > 0 && runner_.counters().step % sync_every_ == 0; }

  // Sets this process's requests for the next step. All processes act on the sum after the step.
  void make_requests() {
    const int64_t next = runner_.counters().step + 1;
    runner_.request(kStop, should_stop(step_task_) ? 1 : 0);
    runner_.request(kCheckpoint, save_every_ > 0 && next % save_every_ == 0 ? 1 : 0);
  }

  // Takes a step. Returns false when the task stopped the step before the update began; the step is
  // then undone. Micro-batches that were added stay, and the current batch becomes the next one
  // again.
  bool take_step() {
    const int64_t batches = runner_.options().i64("accumulate");
    const bool whole = batches == 1 && trainer_.accumulated() == 0;
    while (!whole && trainer_.accumulated() < batches) {
      if (!unless_stopped([&](const Batch& batch) { trainer_.accumulate(batch, step_task_); }))
        return false;
    }
    if (whole)
      return unless_stopped([&](const Batch& batch) { trainer_.start_step(batch, step_task_); });
    return finished([&] { trainer_.start_apply(step_task_); });
  }

  template <class F> bool unless_stopped(const F& work) {
    const int64_t position = source_.position();
    const Batch batch = next_batch();
    if (finished([&] { work(batch); })) return true;
    source_.seek(position);
    return false;
  }

  // Runs `work`. Returns false for the exception of a stopped task, and rethrows other exceptions.
  template <class F> bool finished(const F& work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      const bool stop = error.code() == Code::cancelled || error.code() == Code::deadline_exceeded;
      if (!stop || !should_stop(step_task_) || runner_.is_lost()) throw;
      return false;
    }
  }

  Batch next_batch() {
    const Clock::time_point begin = Clock::now();
    std::optional<Batch> batch = source_.next();
    runner_.add_input_wait(std::chrono::duration<double>(Clock::now() - begin).count());
    if (!batch) {
      runner_.read_all();
      if (done_ > 0) save_last();
      finish_sinks();
      fail_with_hint("give more data, or more epochs to the loader", Code::out_of_range,
                     "the data ended after {} of {} steps", done_, steps_);
    }
    return *std::move(batch);
  }

  bool saves() const { return !runner_.options().str("root").empty(); }

  void save() { start(runner_.options().boolean("save_wait")); }

  // Saves the last checkpoint; no write runs after it. An earlier checkpoint that failed in the
  // background does not prevent the last one.
  void save_last() {
    if (!saves()) return;
    const std::exception_ptr earlier = finish_save(trainer_);
    look_at_save();
    start(true);
    if (earlier != nullptr) std::rethrow_exception(earlier);
  }

  void start(bool wait) {
    if (!saves() || saved_step_ == runner_.counters().step) return;
    Options options(checkpoint_schema());
    options.set_i64("keep_last", runner_.options().i64("keep_last"));
    options.set_i64("wait", wait ? 1 : 0);
    // A run from an older checkpoint replaces the later checkpoints of the earlier run.
    options.set_i64("overwrite", 1);
    const SaveStart next = start_save(trainer_, &source_, runner_.options().str("root"), options);
    look_at_save(); // the last save has ended
    saved_step_ = runner_.counters().step;
    save_ = next;
    look_at_save();
  }

  // Sends the event of a save that is on disk. Fails when it could not be written.
  void look_at_save() {
    if (!save_) return;
    const SaveState now = save_->outcome == nullptr
                              ? SaveState::written
                              : save_->outcome->load(std::memory_order_acquire);
    if (now == SaveState::running) return;
    const SaveStart ended = *std::exchange(save_, std::nullopt);
    if (now == SaveState::failed) return state_.save.wait();
    Event event(EventKind::checkpoint);
    event.set("step", ended.step).set("dir", ended.dir).set("stall_seconds", ended.stall_seconds);
    send(event);
  }

  void send_step() {
    ++read_;
    if (task_ != nullptr) task_->set_progress(read_, steps_);
    send(step_event(runner_.metrics()));
  }

  // Calls all sinks. When a sink cannot write a step, the step is complete and its callback is
  // called. The run then ends with a checkpoint and fails.
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

  // After a callback returned stop it gets no more steps. Sinks do, because these steps were taken
  // too.
  void send(const Event& event) {
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
  StepRunner& runner_;
  BatchSource& source_;
  int64_t steps_;
  const EventFn& fn_;
  Task* task_;
  Task* step_task_;           // of the work of a step; null: the step runs to its end
  int64_t cancelled_by_ = -1; // the first process whose task was cancelled
  static constexpr int64_t kUnknown = int64_t{1} << 40;         // more steps than any run takes
  const double budget_ = 60 * runner_.options().f64("minutes"); // seconds
  Clock::time_point start_ = Clock::now();
  const int64_t begin_ = runner_.counters().step;
  int64_t save_every_ = 0, sync_every_ = 0; // steps; 0: never
  int64_t done_ = 0;                        // started steps
  int64_t read_ = 0;                        // steps that were read and whose events were sent
  int64_t saved_step_ = -1;
  std::optional<SaveStart> save_; // a save whose event was not sent yet
  bool stopped_ = false;
  std::exception_ptr sink_error_; // the first error
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
  state.runner.read_all();
  state.evaluator.set_state(state.runner.objective_state());
  noise::LossValue total;
  std::vector<double> means;
  const ReadingAhead ahead(source, max_batches);
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
  if (means.empty()) fail(Code::out_of_range, "the data holds no batch to evaluate");
  double spread = 0;
  for (const double mean : means) spread += (mean - total.mean()) * (mean - total.mean());
  const auto count = static_cast<double>(means.size());
  Event event(EventKind::eval);
  event.set("step", state.runner.counters().step).set("loss", total.mean());
  event.set("stderr", count > 1 ? std::sqrt(spread / (count - 1) / count) : 0.0);
  // Bits per byte, unlike the loss of a token, is comparable between tokenizers. Where it is a
  // likelihood it is also comparable between objectives.
  const bool bounds = state.runner.objective()->bounds_likelihood();
  const double bytes = bounds ? source.bytes_per_token() : 0;
  if (bytes > 0) event.set("bits_per_byte", total.mean() / std::numbers::ln2 / bytes);
  for (const auto& sink : state.sinks) sink->write(event, {});
  return total.mean();
}

} // namespace dllm::train

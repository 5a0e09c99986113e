#include "train/run.h"

#include "base/error.h"
#include "base/named_table.h"
#include "noise/latent/adaptive_times.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/step_metrics.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::train {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 40; // more steps than any run takes

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

// Adds what the objective's state says about the times, at some steps.
void add_profiles(Event& event, const noise::StateArrays& state, int64_t step) {
  constexpr int64_t kEvery = 200, kEveryAtFirst = 20;
  constexpr size_t kMostParts = 25; // of [0, 1]
  if (step % (step < kEvery ? kEveryAtFirst : kEvery) != 0) return;
  for (auto& [name, values] : noise::AdaptiveTimes::profiles(state, kMostParts))
    event.set(name, std::move(values));
}

} // namespace

Run::Run(Trainer& trainer, BatchSource& source, int64_t steps, const EventFn& fn, Task* task)
    : trainer_(trainer), exchange_(trainer.exchange()), source_(source), steps_(steps), fn_(fn),
      task_(task), step_task_(in_processes() ? nullptr : task),
      budget_(60 * trainer.options().f64("minutes")), begin_seconds_(trainer.run_seconds()),
      begin_(trainer.steps_done()), begin_tokens_(trainer.counters().tokens) {
  const Options& options = trainer.options();
  const double save_every = options.f64("save_every");
  const bool has_budget = budget_ > 0 || options.i64("tokens") > 0;
  const bool is_part = save_every > 0 && save_every < 1 && options.i64("steps") == 0 && has_budget;
  save_part_ = is_part ? save_every : 0;
  save_every_ = is_part ? 0 : interval_steps("save_every", save_every, options.i64("steps"));
  sync_every_ = interval_steps("sync_every", options.f64("sync_every"), options.i64("steps"));
  exchange_.on_read = [this] { send_step(); };
}

Run::~Run() {
  // A run that fails leaves no unfinished write.
  if (save_) trainer_.saves().background.wait_until_idle();
  exchange_.on_read = nullptr;
  exchange_.clock = 0;
  trainer_.set_run_seconds(seconds_of_all());
}

bool Run::go() {
  const int64_t batches = std::min(trainer_.options().i64("accumulate"), kMostSteps);
  const ReadingAhead ahead(source_, std::min(steps_, kMostSteps / batches) * batches);
  while (done_ < steps_ && goes_on()) {
    make_requests();
    if (!take_step()) break;
    ++done_;
    if (exchange_.requested_here(kCheckpoint) > 0 || wants_sync()) trainer_.read_all();
    const bool checkpoint = exchange_.requested(kCheckpoint) > 0,
               enough = exchange_.requested(kStop) > 0;
    exchange_.clear_requested();
    look_at_save();
    if (checkpoint) start_save_of_step(trainer_.options().boolean("save_wait"));
    if (enough || should_stop(step_task_)) break;
  }
  trainer_.read_all();
  const bool cancelled = done_ < steps_ && (should_stop(step_task_) || cancelled_by_ >= 0);
  if (done_ > 0) save_last();
  finish_sinks();
  exchange_.clear_requests();
  if (sink_error_ != nullptr) std::rethrow_exception(sink_error_);
  if (cancelled) fail_cancelled();
  return done_ == steps_;
}

double Run::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

// True: the next callback must find the trainer at the step of its event.
bool Run::wants_sync() const {
  return sync_every_ > 0 && trainer_.steps_done() % sync_every_ == 0;
}

// Returns true when another step follows. All processes take the same steps: a process that ends
// the run ends it for all, and the first process has the clock and counts the tokens. A step of
// several processes is not cancelled; all processes check for the end after it.
bool Run::goes_on() {
  StepRequest request;
  trainer_.set_run_seconds(seconds_of_all());
  request.clock = budget_ > 0 ? std::min(trainer_.run_seconds() / budget_, 1.0) : 0;
  request.tokens = token_share(trainer_.options(), trainer_.counters().tokens);
  request.ends = stopped_ || sink_error_ != nullptr ? 1 : 0;
  if (in_processes()) {
    request.is_cancelled = should_stop(task_) ? 1 : 0;
    request.step = trainer_.steps_done();
    request = agreed(request);
  }
  exchange_.clock = std::max(request.clock, request.tokens);
  // A budget below the time of a step has one step.
  const bool has_step = done_ > 0 || begin_seconds_ > 0;
  const bool over_budget = request.tokens >= 1.0 || (request.clock >= 1.0 && has_step);
  return request.ends == 0 && request.is_cancelled == 0 && !over_budget;
}

Run::StepRequest Run::agreed(const StepRequest& own) {
  const auto request_of = [](const std::string& word) {
    StepRequest request;
    if (word.size() != sizeof request) {
      fail_with_hint("do all processes see the same files?", Code::failed_precondition,
                     "a rank makes another call, while the other ranks begin a step");
    }
    std::memcpy(&request, word.data(), sizeof request);
    return request;
  };
  const std::string word(reinterpret_cast<const char*>(&own), sizeof own);
  const std::vector<std::string> all = trainer_.engine().exchange(word);
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

// Sets this process's requests for the next step. All processes act on the sum after the step.
void Run::make_requests() {
  const int64_t next = trainer_.steps_done() + 1;
  const bool is_save = (save_every_ > 0 && next % save_every_ == 0) || begins_save_part();
  exchange_.request(kStop, should_stop(step_task_) ? 1 : 0);
  exchange_.request(kCheckpoint, is_save ? 1 : 0);
}

// Returns true when the used share of the budget has reached another multiple of save_every.
bool Run::begins_save_part() {
  if (save_part_ == 0) return false;
  const auto part = static_cast<int64_t>(exchange_.clock / save_part_);
  const bool begins = parts_saved_ >= 0 && part > parts_saved_;
  parts_saved_ = part;
  return begins;
}

// Takes a step. Returns false when the task stopped the step before the update began; the step is
// then undone. Micro-batches that were added stay, and the current batch becomes the next one
// again.
bool Run::take_step() {
  const int64_t batches = trainer_.options().i64("accumulate");
  const bool whole = batches == 1 && trainer_.accumulated() == 0;
  while (!whole && trainer_.accumulated() < batches) {
    if (!unless_stopped([&](const Batch& batch) { trainer_.accumulate(batch, step_task_); }))
      return false;
  }
  if (whole)
    return unless_stopped([&](const Batch& batch) { trainer_.start_step(batch, step_task_); });
  return finished([&] { trainer_.start_apply(step_task_); });
}

bool Run::unless_stopped(const std::function<void(const Batch&)>& work) {
  const int64_t position = source_.position();
  const Batch batch = next_batch();
  if (finished([&] { work(batch); })) return true;
  source_.seek(position);
  return false;
}

// Runs `work`. Returns false for the exception of a stopped task, and rethrows other exceptions.
bool Run::finished(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    const bool stop = error.code() == Code::cancelled || error.code() == Code::deadline_exceeded;
    if (!stop || !should_stop(step_task_) || trainer_.is_lost()) throw;
    return false;
  }
}

Batch Run::next_batch() {
  const Clock::time_point begin = Clock::now();
  std::optional<Batch> batch = source_.next();
  exchange_.add_input_wait(std::chrono::duration<double>(Clock::now() - begin).count());
  if (!batch) {
    trainer_.read_all();
    if (done_ > 0) save_last();
    finish_sinks();
    fail_with_hint("give more data, or more epochs to the loader", Code::out_of_range,
                   "the data ended after {} of {} steps", done_, steps_);
  }
  return *std::move(batch);
}

void Run::fail_cancelled() {
  check_task(task_);
  fail(Code::cancelled, "rank {} was cancelled", cancelled_by_);
}

// Saves the last checkpoint; no write runs after it. An earlier checkpoint that failed in the
// background does not prevent the last one.
void Run::save_last() {
  if (!saves()) return;
  const std::exception_ptr earlier = finish_save(trainer_);
  look_at_save();
  start_save_of_step(true);
  if (earlier != nullptr) std::rethrow_exception(earlier);
}

void Run::start_save_of_step(bool wait) {
  if (!saves() || saved_step_ == trainer_.steps_done()) return;
  Options options(checkpoint_schema());
  options.set_i64("keep_last", trainer_.options().i64("keep_last"));
  options.set_i64("wait", wait ? 1 : 0);
  // A run from an older checkpoint replaces the later checkpoints of the earlier run.
  options.set_i64("overwrite", 1);
  trainer_.set_run_seconds(seconds_of_all());
  const SaveStart next = start_save(trainer_, &source_, trainer_.options().str("root"), options);
  look_at_save(); // the last save has ended
  saved_step_ = trainer_.steps_done();
  save_ = next;
  look_at_save();
}

// Sends the event of a save that is on disk. Fails when it could not be written.
void Run::look_at_save() {
  if (!save_) return;
  const SaveState now = save_->outcome == nullptr ? SaveState::written
                                                  : save_->outcome->load(std::memory_order_acquire);
  if (now == SaveState::running) return;
  const SaveStart ended = *std::exchange(save_, std::nullopt);
  if (now == SaveState::failed) return trainer_.saves().background.wait();
  Event event(EventKind::checkpoint);
  event.set("step", ended.step).set("dir", ended.dir).set("stall_seconds", ended.stall_seconds);
  send(event);
}

Progress Run::progress() const {
  const int64_t total = steps_ < kMostSteps ? begin_ + steps_ : 0;
  return {begin_ + read_, total,         seconds(),
          read_,          budget_,       trainer_.options().i64("tokens"),
          begin_tokens_,  begin_seconds_};
}

void Run::send_step() {
  ++read_;
  trainer_.set_run_seconds(seconds_of_all());
  if (task_ != nullptr) task_->set_progress(read_, steps_);
  Event event = step_event(trainer_.metrics());
  add_profiles(event, trainer_.objective_state(), std::get<int64_t>(*event.find("step")));
  send(event);
}

// After a callback returned stop it gets no more steps. Sinks do, because these steps were taken
// too.
void Run::send(const Event& event) {
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

// Calls all sinks. When a sink cannot write a step, the step is complete and its callback is
// called. The run then ends with a checkpoint and fails.
void Run::each_sink(const std::function<void(Sink&)>& call) {
  for (const auto& sink : trainer_.sinks()) {
    try {
      call(*sink);
    } catch (const Error&) {
      if (sink_error_ == nullptr) sink_error_ = std::current_exception();
    }
  }
}

void Run::finish_sinks() {
  each_sink([](Sink& sink) { sink.finish(); });
}

} // namespace dllm::train

// Saves a checkpoint: the snapshot, and its write on this thread or on one of its own.
#include "train/checkpoint.h"

#include "base/error.h"
#include "base/files.h"
#include "base/forked_thread.h"
#include "base/log.h"
#include "ckpt/checkpoint_folder.h"
#include "train/state.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

namespace dllm::train {

const Schema& checkpoint_schema() {
  static const Schema schema(
      "checkpoint",
      {
          option_i64("keep_last", 0, 0, 1 << 20, "Checkpoints of the run to keep; 0: all."),
          option_str("script_state", "", "JSON text of a script, returned by restore."),
          option_bool(
              "wait", true,
              "Return when the checkpoint is on disk; false: a copy is written in the background."),
          option_bool("overwrite", false, "Replace a checkpoint of the same step."),
      });
  return schema;
}

namespace {

Json accumulated_json(const Accumulated& sums) {
  if (sums.batches == 0) return nullptr;
  Json parts = Json::object();
  for (const auto& [name, part] : sums.parts) parts[name] = {part.first, part.second};
  return {{"batches", sums.batches},
          {"rows", sums.rows},
          {"tokens", sums.tokens},
          {"sum", sums.sum},
          {"normalizer", sums.normalizer},
          {"mean_sum", sums.mean_sum},
          {"seconds", sums.seconds},
          {"flops", sums.flops},
          {"parts", parts}};
}

Json trainer_json(const StepRunner& runner, const BatchSource* source,
                  const std::string& script_state) {
  const Counters& counters = runner.counters();
  const Hyper hyper = runner.hyper();
  Json made = {{"format", 1},
               {"step", counters.step},
               {"updates", counters.updates},
               {"skipped", counters.skipped},
               {"tokens", counters.tokens},
               {"batches", counters.batches}};
  made["position"] = source != nullptr ? Json(source->position()) : Json(nullptr);
  made["keys"] = {{"generator", "threefry2x32"}, {"seed", runner.options().i64("seed")}};
  made["lr"] = hyper.lr;
  made["weight_decay"] = hyper.weight_decay;
  made["clip"] = hyper.clip;
  made["accumulated"] = accumulated_json(runner.accumulated());
  made["objective"] = runner.objective()->describe();
  made["options"] = runner.options().to_json();
  made["script_state"] =
      script_state.empty() ? Json(nullptr) : parse_json(script_state, "option script_state");
  return made;
}

// A run at one moment: nothing of it is shared with the trainer when it was copied.
struct RunSnapshot {
  std::string root;
  int64_t step = 0;
  int64_t keep_last = 0;
  std::string record; // trainer.json
  model::ModelSnapshot model;
  StateSnapshot state;

  RunSnapshot(const StepRunner& runner, model::SnapshotMode mode, const Task* task)
      : step(runner.counters().step), model(*runner.model(), mode, task),
        state(snapshot_state(runner, mode, task)) {}
};

std::string write_checkpoint(RunSnapshot& run, Task* task) {
  ckpt::CheckpointWriter writer(run.root, run.step, task);
  Options save(model::save_schema());
  save.set_str("dtype", "f32"); // the masters, bit for bit
  model::save_model(run.model, writer.path("model"), save, task);
  const std::string layout = layout_text(run.state);
  write_state(run.state, writer.path("state/rank_000.safetensors"), task);
  write_file_atomic(writer.path("state/layout.json"), layout);
  write_file_atomic(writer.path("trainer.json"), run.record);
  return writer.commit(run.keep_last, task);
}

// Adds the seconds of its life to the time that training stood still.
class StallClock {
public:
  explicit StallClock(Trainer::State& state) : state_(state) {}
  ~StallClock() {
    state_.stall_seconds += seconds();
    state_.runner.metrics().set({{"checkpoint_stall_seconds", state_.stall_seconds}});
  }
  StallClock(const StallClock&) = delete;
  StallClock& operator=(const StallClock&) = delete;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

private:
  using Clock = std::chrono::steady_clock;
  Trainer::State& state_;
  const Clock::time_point start_ = Clock::now();
};

void check_is_new(const StepRunner& runner, const std::string& folder, const Options& options) {
  if (options.boolean("overwrite") || runner.accumulated().batches > 0) return;
  if (!file_exists(join_path(folder, ckpt::kCommitName))) return;
  fail_with_hint("take a step first, or set overwrite", Code::already_exists, "{} is saved already",
                 folder);
}

// Whether the engine's limit has room for the copy that a background save holds.
bool has_room_for_copy(const StepRunner& runner) {
  const int64_t limit = runner.engine().i64("memory_limit");
  if (limit <= 0 || runner.engine().runs_ahead()) return true; // copies are host memory then
  int64_t bytes = state_bytes(runner.spec());
  for (const size_t index : runner.spec().trained)
    bytes += dtype_size(DType::f32) * runner.model()->params().physical()[index].shape.count();
  return runner.engine().i64("memory_used") + bytes <= limit;
}

// The first of several processes writes by itself: it needs a copy of what the others hold.
model::SnapshotMode mode_of(const StepRunner& runner, bool in_background) {
  return in_background || runner.engine().processes() > 1 ? model::SnapshotMode::copied
                                                          : model::SnapshotMode::keep_shared;
}

} // namespace

SaveStart start_save(Trainer& trainer, const BatchSource* source, const std::string& root,
                     const Options& options, Task* task) {
  Trainer::State& state = trainer.state();
  StepRunner& runner = state.runner;
  runner.read_all();
  const StallClock clock(state);
  SaveStart made;
  made.step = runner.counters().step;
  made.dir = join_path(root, ckpt::checkpoint_name(made.step));
  graph::run_on_first(runner.engine(), [&] {
    state.save.wait(task);
    check_is_new(runner, made.dir, options);
  });
  const std::string record =
      trainer_json(runner, source, options.str("script_state")).dump(1) + "\n";
  const bool waits = options.boolean("wait"), is_first = runner.engine().process() == 0;
  const bool in_background = !waits && (!is_first || has_room_for_copy(runner));
  const auto run = std::make_shared<RunSnapshot>(runner, mode_of(runner, in_background), task);
  run->root = root;
  run->keep_last = options.i64("keep_last");
  run->record = record;
  if (waits)
    graph::run_on_first(runner.engine(), [&] { made.dir = write_checkpoint(*run, task); });
  else if (in_background && is_first)
    made.outcome =
        state.save.start("checkpoint " + made.dir, [run] { write_checkpoint(*run, nullptr); });
  else if (is_first)
    made.dir = write_checkpoint(*run, task);
  made.stall_seconds = clock.seconds();
  return made;
}

std::exception_ptr finish_save(Trainer& trainer) {
  const StallClock clock(trainer.state());
  return trainer.state().save.take_error();
}

std::string save_checkpoint(Trainer& trainer, const BatchSource* source, const std::string& root,
                            const Options& options, Task* task) {
  return start_save(trainer, source, root, options, task).dir;
}

BackgroundSave::~BackgroundSave() {
  try {
    wait();
  } catch (const std::exception& error) {
    log(LogLevel::error, "{}", error.what());
  }
}

std::shared_ptr<const BackgroundSave::Outcome> BackgroundSave::start(std::string what,
                                                                     std::function<void()> write) {
  wait();
  what_ = std::move(what);
  process_ = ::getpid();
  auto outcome = std::make_shared<Outcome>(SaveState::running);
  running_ = true;
  try {
    thread_ = std::thread([this, outcome, write]() mutable { run(outcome, std::move(write)); });
  } catch (const std::system_error&) { // no thread can be made: written here
    run(outcome, std::move(write));
  }
  return outcome;
}

void BackgroundSave::run(const std::shared_ptr<Outcome>& outcome, std::function<void()> write) {
  std::exception_ptr error;
  try {
    write();
  } catch (...) {
    error = std::current_exception();
  }
  write = nullptr;
  outcome->store(error == nullptr ? SaveState::written : SaveState::failed,
                 std::memory_order_release);
  const std::lock_guard lock(mutex_);
  error_ = error;
  running_ = false;
  ended_.notify_all();
}

void BackgroundSave::wait_until_idle(const Task* task) {
  if (thread_.joinable() && process_ != ::getpid()) {
    forget_thread(thread_);
    running_ = false;
    return;
  }
  {
    constexpr std::chrono::milliseconds kLook(10); // how often a waiting call looks at its task
    std::unique_lock lock(mutex_);
    while (running_) {
      check_task(task);
      if (task == nullptr)
        ended_.wait(lock);
      else
        ended_.wait_for(lock, kLook);
    }
  }
  if (thread_.joinable()) thread_.join();
}

std::exception_ptr BackgroundSave::take_error(const Task* task) {
  wait_until_idle(task);
  const std::exception_ptr error = std::exchange(error_, nullptr);
  if (error == nullptr) return nullptr;
  try {
    std::rethrow_exception(error);
  } catch (const Error& reason) {
    return std::make_exception_ptr(
        Error(reason.code(), what_ + " was not written: " + reason.text(), reason.hint()));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(
        Error(Code::resource_exhausted, what_ + " was not written: out of memory"));
  } catch (...) {
    return error;
  }
}

void BackgroundSave::wait(const Task* task) {
  if (const std::exception_ptr error = take_error(task)) std::rethrow_exception(error);
}

} // namespace dllm::train

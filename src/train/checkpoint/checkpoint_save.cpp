// Saves a checkpoint: makes the snapshot, and writes it on this thread or on a background thread.
#include "train/checkpoint/checkpoint.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/address.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/checkpoint/checkpoint_parts.h"
#include "ckpt/checkpoint/state_files.h"
#include "train/checkpoint/checkpoint_model.h"
#include "train/checkpoint/checkpoint_save.h"
#include "train/checkpoint/state_file.h"
#include "train/replay/replay_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

namespace dllm::train {

const Schema& checkpoint_schema() {
  static const Schema schema(
      "checkpoint",
      {
          option_i64("keep_last", 0, 0, 1 << 20, "Checkpoints of the run to keep; 0: all."),
          option_list("keep_steps", {},
                      "Steps of checkpoints that stay, whatever keep_last removes.",
                      ListOf::texts_and_numbers),
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
          {"parts", parts},
          {"observed", sums.observed}};
}

Json trainer_json(const Trainer& trainer, const BatchSource* source,
                  const std::string& script_state) {
  const Counters& counters = trainer.counters();
  const Hyper hyper = trainer.hyper();
  Json made = {{"format", 1},
               {"step", counters.step},
               {"updates", counters.updates},
               {"skipped", counters.skipped},
               {"tokens", counters.tokens},
               {"batches", counters.batches}};
  // Equal runs have equal files, unless the clock ends them.
  if (trainer.options().f64("minutes") > 0) made["run_seconds"] = trainer.run_seconds();
  made["position"] = source != nullptr ? Json(source->position()) : Json(nullptr);
  made["keys"] = {{"generator", "threefry2x32"}, {"seed", trainer.options().i64("seed")}};
  made["lr"] = hyper.lr;
  made["weight_decay"] = hyper.weight_decay;
  made["clip"] = hyper.clip;
  made["accumulated"] = accumulated_json(trainer.sums());
  made["objective"] = trainer.objective()->describe();
  made["options"] = trainer.options().to_json();
  made["script_state"] =
      script_state.empty() ? Json(nullptr) : parse_json_option(script_state, "script_state");
  return made;
}

// The place of a save that several processes write together. Both are null when one process writes.
struct SharedPlace {
  std::unique_ptr<ckpt::CheckpointWriter> writer; // of the first process
  std::unique_ptr<ckpt::CheckpointPart> part;     // of another process
  std::string id;
  int64_t writers = 1;
};

// A run at one moment. A copied one shares nothing with the trainer.
struct RunSnapshot {
  std::string root;
  int64_t step = 0;
  ckpt::KeptCheckpoints kept;
  std::string record; // trainer.json
  SharedPlace place;
  model::WriterShares shares;
  StoredModel model;
  StateSnapshot state;
  noise::StateArrays objective;
  std::deque<ReplayedBatch> replayed; // training writes none of their arrays

  RunSnapshot(const Trainer& trainer, SharedPlace shared, model::SnapshotMode mode,
              CopyPool* copies, const Task* task)
      : step(trainer.counters().step), place(std::move(shared)), shares(place.writers),
        model(trainer.trained_model(), *trainer.spec().selection, mode, shares, task, copies),
        state(snapshot_state(trainer, mode, shares, task, copies)),
        objective(trainer.objective_state()), replayed(trainer.replay().kept()) {}
};

// Writes weights and state of this process, and returns the names of the files.
std::vector<std::string> write_arrays(RunSnapshot& run, const std::string& folder, Task* task) {
  make_directories(join_path(folder, "state"));
  std::vector<std::string> names = run.model.write(folder, task);
  names.push_back(ckpt::state_file(run.state.process));
  write_state(run.state, join_path(folder, names.back()), task);
  return names;
}

// Writes the arrays of this process. An error is passed to the first process, whose save fails
// then.
void write_part(RunSnapshot& run, Task* task) {
  ckpt::CheckpointPart& part = *run.place.part;
  try {
    part.finish(write_arrays(run, part.folder(), task), task);
  } catch (const Error& error) {
    part.fail(error);
  } catch (const std::exception& error) {
    part.fail(Error(Code::resource_exhausted, error.what()));
  }
}

std::string write_checkpoint(RunSnapshot& run, Task* task) {
  std::unique_ptr<ckpt::CheckpointWriter> writer = std::move(run.place.writer);
  if (writer == nullptr)
    writer = std::make_unique<ckpt::CheckpointWriter>(run.root, run.step, task);
  const std::string layout = layout_text(run.state);
  write_arrays(run, writer->folder(), task);
  write_objective_state(run.objective, writer->folder());
  write_replayed(run.replayed, writer->folder());
  write_file_atomic(writer->path("state/layout.json"), layout);
  write_file_atomic(writer->path("trainer.json"), run.record);
  std::vector<ckpt::CommitEntry> parts;
  if (run.place.writers > 1)
    parts = ckpt::wait_for_parts(*writer, run.place.writers, run.place.id, task);
  return writer->commit(run.kept, task, parts);
}

// Opens the place of a save; all processes call it. In an object store, or in a folder that some
// process does not see, the first process writes alone.
SharedPlace open_place(const Trainer& trainer, const std::string& root, const Task* task) {
  graph::Engine& engine = trainer.engine();
  SharedPlace place;
  const int64_t own = engine.process();
  if (engine.processes() == 1 || is_store_path(root)) return place;
  const int64_t step = trainer.counters().step;
  graph::run_on_first(engine, [&] {
    place.writer = std::make_unique<ckpt::CheckpointWriter>(root, step, task);
    place.id = ckpt::open_parts(*place.writer, engine.processes());
  });
  place.id = engine.exchange(place.id, task)[0];
  const std::string folder = ckpt::partial_folder(root, step);
  const bool sees = own == 0 || ckpt::sees_part(folder, own, place.id);
  const std::vector<std::string> all = engine.exchange(sees ? "" : "blind", task);
  const auto blind = std::find(all.begin(), all.end(), "blind");
  if (blind != all.end()) {
    if (own == 0)
      log(LogLevel::warn, "rank {} does not see {}: only rank 0 writes the checkpoint",
          blind - all.begin(), folder);
    return {};
  }
  place.writers = engine.processes();
  if (own > 0) place.part = std::make_unique<ckpt::CheckpointPart>(folder, own, place.id);
  return place;
}

// Adds the seconds of its life to the seconds that training stood still.
class StallClock {
public:
  explicit StallClock(Trainer& trainer) : trainer_(trainer) {}
  ~StallClock() { trainer_.count_stall(seconds()); }
  StallClock(const StallClock&) = delete;
  StallClock& operator=(const StallClock&) = delete;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

private:
  using Clock = std::chrono::steady_clock;
  Trainer& trainer_;
  const Clock::time_point start_ = Clock::now();
};

void check_is_new(const Trainer& trainer, const std::string& folder, const Options& options) {
  if (options.boolean("overwrite") || trainer.sums().batches > 0) return;
  if (!file_exists(join_path(folder, ckpt::kCommitName))) return;
  fail_with_hint("take a step first, or set overwrite", Code::already_exists, "{} is saved already",
                 folder);
}

// Returns true when the engine's limit has room for the copy of a background save, divided by the
// processes. Returns false where one process writes offloaded arrays.
bool has_room_for_copy(const Trainer& trainer, int64_t writers) {
  const int64_t limit = trainer.engine().i64("memory_limit");
  // A copy in memory of arrays that were put outside of it would need what they save.
  if (trainer.spec().offloads() && writers == 1) return false;
  if (limit <= 0 || trainer.engine().runs_ahead()) return true; // copies are host memory then
  int64_t bytes = state_bytes(trainer.spec());
  for (const size_t index : trainer.spec().trained)
    bytes +=
        dtype_size(DType::f32) * trainer.trained_model().params().physical()[index].shape.count();
  return trainer.engine().i64("memory_used") + bytes / writers <= limit;
}

// Returns the checkpoints that stay after a save.
ckpt::KeptCheckpoints kept_checkpoints(const Options& options) {
  ckpt::KeptCheckpoints kept{options.i64("keep_last"), {}};
  for (const std::string& word : options.list("keep_steps")) {
    int64_t step = 0;
    const auto end = word.data() + word.size();
    if (std::from_chars(word.data(), end, step).ptr != end || word.empty() || step < 0)
      fail(Code::invalid_argument, "keep_steps: \"{}\" is not a step, expected 0 or more", word);
    kept.steps.insert(step);
  }
  return kept;
}

// With several processes the copy is needed, because a writer has no other access to the other
// processes' arrays.
model::SnapshotMode mode_of(const Trainer& trainer, bool in_background) {
  return in_background || trainer.engine().processes() > 1 ? model::SnapshotMode::copied
                                                           : model::SnapshotMode::keep_shared;
}

} // namespace

SaveStart start_save(Trainer& trainer, const BatchSource* source, const std::string& root,
                     const Options& options, Task* task) {
  SaveSlot& saves = trainer.saves();
  trainer.read_all();
  const StallClock clock(trainer);
  const bool is_first = trainer.engine().process() == 0;
  SaveStart made;
  made.step = trainer.counters().step;
  made.dir = join_path(root, ckpt::checkpoint_name(made.step));
  if (!is_first) saves.background.wait_until_idle(task);
  graph::run_on_first(trainer.engine(), [&] {
    saves.background.wait(task);
    check_is_new(trainer, made.dir, options);
  });
  Json record = trainer_json(trainer, source, options.str("script_state"));
  SharedPlace place = open_place(trainer, root, task);
  const bool waits = options.boolean("wait"),
             in_background = !waits && has_room_for_copy(trainer, place.writers);
  if (!waits && !in_background) saves.copies = CopyPool(); // no room for an earlier copy either
  const auto run =
      std::make_shared<RunSnapshot>(trainer, std::move(place), mode_of(trainer, in_background),
                                    in_background ? &saves.copies : nullptr, task);
  run->root = root;
  run->kept = kept_checkpoints(options);
  record["parts"] = run->model.list();
  run->record = record.dump(1) + "\n";
  if (is_first && in_background) {
    made.outcome = saves.background.start("checkpoint " + made.dir,
                                          [run] { write_checkpoint(*run, nullptr); });
  } else if (run->place.part != nullptr && in_background) {
    made.outcome =
        saves.background.start("part of " + made.dir, [run] { write_part(*run, nullptr); });
  } else if (run->place.part != nullptr) {
    write_part(*run, task);
  }
  if (waits)
    graph::run_on_first(trainer.engine(), [&] { made.dir = write_checkpoint(*run, task); });
  else if (is_first && !in_background)
    made.dir = write_checkpoint(*run, task);
  made.stall_seconds = clock.seconds();
  return made;
}

std::exception_ptr finish_save(Trainer& trainer) {
  const StallClock clock(trainer);
  return trainer.saves().background.take_error();
}

std::string save_checkpoint(Trainer& trainer, const BatchSource* source, const std::string& root,
                            const Options& options, Task* task) {
  return start_save(trainer, source, root, options, task).dir;
}

} // namespace dllm::train

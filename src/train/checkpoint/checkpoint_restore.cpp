#include "base/error.h"
#include "base/files.h"
#include "base/store/objects.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_model.h"
#include "train/checkpoint/checkpoint_record.h"
#include "train/checkpoint/state_file.h"
#include "train/replay/replay_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::train {
namespace {

// Returns the value of an option in a checkpoint. An option that is newer than the checkpoint had
// its default.
Json saved_value(const Json& saved, const std::string& key, const Json& defaults) {
  return saved.value(key, defaults.value(key, Json(nullptr)));
}

// Returns a schedule of a checkpoint, with the defaults of options that are newer than the
// checkpoint.
Json saved_schedule(const Json& saved) {
  const std::string name = saved.is_object() ? saved.value("name", "") : "";
  const std::vector<std::string> known = noise::schedule_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return saved;
  Json made = Options(noise::schedule_schema(name)).to_json();
  made.update(saved);
  return made;
}

void check_objective(const Json& saved, const noise::Objective& objective) {
  const Json defaults = Options(objective.options().schema()).to_json();
  const Json described = objective.describe();
  for (const auto& [key, value] : described.items()) {
    if (key == "reads") continue; // follows from the options; older checkpoints lack it
    Json before = saved_value(saved, key, defaults);
    if (key == "schedule") before = saved_schedule(before);
    if (before != value) fail_differs("objective." + key, before.dump(), value.dump());
  }
}

// Checks the values that must be equal for the run to continue bit for bit, including the
// optimizer's options.
void check_options(const Json& record, const Trainer& trainer) {
  const Json saved = member<Json>(record, "options"), here = trainer.options().to_json();
  const Json defaults = Options(trainer_schema()).to_json();
  const Json optimizer = saved_value(saved, "optimizer", defaults);
  if (optimizer != here.at("optimizer"))
    fail_differs("optimizer", optimizer.dump(), here.at("optimizer").dump());
  std::vector<std::string> keys;
  for (const OptionSpec& row : trainer.spec().optimizer->options) keys.push_back(row.key);
  for (const char* key : {"decay", "seed", "ema", "compat"}) keys.emplace_back(key);
  for (const std::string& key : keys) {
    const Json before = saved_value(saved, key, defaults);
    if (before != here.at(key)) fail_differs(key, before.dump(), here.at(key).dump());
  }
  check_objective(member<Json>(record, "objective"), *trainer.objective());
}

// Restores attention, shift and mask token, which the objective set in the model when the run
// began.
void check_config(const model::ModelConfig& saved, const model::ModelConfig& here) {
  const std::string before = model::attention_name(saved.attention),
                    now = model::attention_name(here.attention);
  if (before != now) fail_differs("attention", before, now);
  if (saved.shift != here.shift)
    fail_differs("shift", std::to_string(saved.shift), std::to_string(here.shift));
  if (saved.mask_token_id != here.mask_token_id)
    fail_differs("mask token", std::to_string(saved.mask_token_id),
                 std::to_string(here.mask_token_id));
  if (saved.block_length != here.block_length)
    fail_differs("block_length", std::to_string(saved.block_length),
                 std::to_string(here.block_length));
}

Accumulated read_accumulated(const Json& record) {
  Accumulated sums;
  const Json saved = member<Json>(record, "accumulated");
  if (saved.is_null()) return sums;
  sums.batches = member<int64_t>(saved, "batches");
  sums.rows = member<int64_t>(saved, "rows");
  sums.tokens = member<int64_t>(saved, "tokens");
  sums.sum = member<double>(saved, "sum");
  sums.normalizer = member<double>(saved, "normalizer");
  sums.mean_sum = member<double>(saved, "mean_sum");
  sums.seconds = member<double>(saved, "seconds");
  sums.flops = member<double>(saved, "flops");
  const Json parts = member<Json>(saved, "parts");
  for (const auto& [name, part] : parts.items())
    sums.parts[name] = {part.at(0).get<double>(), part.at(1).get<double>()};
  sums.observed = saved.value("observed", noise::Observed());
  return sums;
}

Counters read_counters(const Json& record) {
  Counters counters;
  counters.step = member<int64_t>(record, "step");
  counters.updates = member<int64_t>(record, "updates");
  counters.skipped = member<int64_t>(record, "skipped");
  counters.tokens = member<int64_t>(record, "tokens");
  counters.batches = member<int64_t>(record, "batches");
  return counters;
}

// Restores values that set_f64 changed, unless the options that they started from were changed on
// purpose.
Hyper read_hyper(const Json& record, const Trainer& trainer) {
  const Json saved = member<Json>(record, "options");
  Hyper hyper = hyper_of(trainer.options());
  if (saved.value("lr", -1.0) == hyper.lr) hyper.lr = member<double>(record, "lr");
  if (saved.value("weight_decay", -1.0) == hyper.weight_decay)
    hyper.weight_decay = member<double>(record, "weight_decay");
  if (saved.value("clip", -1.0) == hyper.clip) hyper.clip = member<double>(record, "clip");
  return hyper;
}

void seek(BatchSource* source, const Json& record) {
  if (source == nullptr) return;
  const Json position = member<Json>(record, "position");
  if (!position.is_number_integer()) {
    fail_with_hint("restore without a loader", Code::failed_precondition,
                   "the checkpoint does not hold a position of the data");
  }
  const int64_t before = source->position();
  try {
    source->seek(position.get<int64_t>());
  } catch (...) {
    source->seek(before);
    throw;
  }
}

// The numbers of trainer.json, compared with the trainer that is restored.
struct Record {
  Json json;
  Counters counters;
  Accumulated accumulated;
  Hyper hyper;
  double run_seconds = 0;
  std::string script_state;
};

Json read_trainer_json(const std::string& dir) {
  Json json = parse_json(read_text(join_path(dir, "trainer.json")), "trainer.json");
  const auto format = member<int64_t>(json, "format");
  if (format != 1) {
    fail(Code::unimplemented, "trainer.json has format {}, expected 1", format);
  }
  return json;
}

Record read_record(const Json& json, const Trainer& trainer) {
  Record made;
  made.json = json;
  try {
    check_options(made.json, trainer);
    made.counters = read_counters(made.json);
    made.accumulated = read_accumulated(made.json);
    made.hyper = read_hyper(made.json, trainer);
    made.run_seconds = made.json.value("run_seconds", 0.0); // without minutes: none
    const Json script = made.json.value("script_state", Json(nullptr));
    if (!script.is_null()) made.script_state = script.dump();
  } catch (const nlohmann::json::exception& error) {
    fail(Code::data_loss, "trainer.json: {}", error.what());
  }
  return made;
}

} // namespace

Restored restore_checkpoint(Trainer& trainer, BatchSource* source, const std::string& dir,
                            Task* task) {
  trainer.check_list();
  // The checkpoint that is still being written may be the one to restore.
  graph::run_on_first(trainer.engine(), [&] { trainer.saves().background.wait_until_idle(task); });
  const store::TransferTask transfers(task);
  graph::Engine& engine = trainer.engine();
  graph::run_on_all(
      engine, [&] { ckpt::verify_checkpoint(dir, task, engine.process(), engine.processes()); });
  const Json json = read_trainer_json(dir);
  const SavedModel saved(json, dir, trainer.trained_model());
  const Record record = read_record(json, trainer);
  check_config(saved.config(), trainer.trained_model().config());
  RestoredState restored;
  graph::run_on_all(engine, [&] { // each process reads its parts
    restored.arrays = read_state(trainer, dir, record.accumulated.batches > 0, task);
    restored.objective = read_objective_state(*trainer.objective(), dir);
    if (trainer.replay().is_on()) restored.replayed = read_replayed(dir);
    restored.weights = saved.read(trainer.spec().trained, task);
  });
  saved.check_quantized(task);
  restored.counters = record.counters;
  restored.accumulated = record.accumulated;
  restored.hyper = record.hyper;
  restored.run_seconds = record.run_seconds;
  seek(source, record.json);

  // The restore does not fail after this point.
  trainer.restore(std::move(restored));
  return {record.counters.step, record.script_state};
}

} // namespace dllm::train

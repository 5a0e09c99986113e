#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/objects.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/safetensors.h"
#include "model/stack_part.h"
#include "train/checkpoint.h"
#include "train/state.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>

namespace dllm::train {
namespace {

[[noreturn]] void fail_differs(const std::string& what, const std::string& saved,
                               const std::string& here) {
  fail_with_hint("make the trainer as it was when the checkpoint was saved",
                 Code::failed_precondition, "the checkpoint has {} {}, this trainer {}", what,
                 saved, here);
}

// A member of trainer.json; the file is ours, so a missing or wrong one means damage.
template <class T> T member(const Json& record, const char* key) {
  const bool there = record.is_object() && record.contains(key);
  const bool fits = there && (!std::is_same_v<T, int64_t> || record.at(key).is_number_integer());
  if (!fits) fail(Code::data_loss, "trainer.json: {} is missing or of another type", key);
  return record.at(key).get<T>();
}

// The value of an option in a checkpoint. One that the option is newer than ran with its default.
Json saved_value(const Json& saved, const std::string& key, const Json& defaults) {
  return saved.value(key, defaults.value(key, Json(nullptr)));
}

// A schedule in a checkpoint, with the defaults of options that are newer than it.
Json saved_schedule(const Json& saved) {
  const std::string name = saved.is_object() ? saved.value("name", "") : "";
  const std::vector<std::string> known = noise::schedule_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return saved;
  Json made = Options(noise::schedule_schema(name)).to_json();
  made.update(saved);
  return made;
}

void check_objective(const Json& saved, const noise::Objective& objective) {
  const Json defaults = Options(noise::objective_schema(objective.name())).to_json();
  const Json described = objective.describe();
  for (const auto& [key, value] : described.items()) {
    Json before = saved_value(saved, key, defaults);
    if (key == "schedule") before = saved_schedule(before);
    if (before != value) fail_differs("objective." + key, before.dump(), value.dump());
  }
}

// What must be equal for the run to go on bit for bit, the optimizer's own options among it.
void check_options(const Json& record, const StepRunner& runner) {
  const Json saved = member<Json>(record, "options"), here = runner.options().to_json();
  const Json defaults = Options(trainer_schema()).to_json();
  const Json optimizer = saved_value(saved, "optimizer", defaults);
  if (optimizer != here.at("optimizer"))
    fail_differs("optimizer", optimizer.dump(), here.at("optimizer").dump());
  std::vector<std::string> keys;
  for (const OptionSpec& row : runner.spec().optimizer->options) keys.push_back(row.key);
  for (const char* key : {"decay", "seed", "ema", "compat"}) keys.emplace_back(key);
  for (const std::string& key : keys) {
    const Json before = saved_value(saved, key, defaults);
    if (before != here.at(key)) fail_differs(key, before.dump(), here.at(key).dump());
  }
  check_objective(member<Json>(record, "objective"), *runner.objective());
}

// What a token sees, which state predicts it, and which token is the mask: the objective made the
// model so when the run began.
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

void check_model(const ckpt::WeightFiles& files, const model::ParamStore& store) {
  for (const std::string& name : store.names(model::kBasePart)) {
    if (!files.has(name)) fail_differs("no tensor", name, "has it");
    const Shape& saved = files.info(name).shape;
    if (saved != store.shape(name)) fail_differs(name, saved.text(), store.shape(name).text());
  }
}

bool same_bytes(const Tensor& x, const Tensor& y) {
  return x.byte_size() == y.byte_size() &&
         std::memcmp(x.bytes(), y.bytes(), static_cast<size_t>(x.byte_size())) == 0;
}

using ReadLogical = std::function<Tensor(const std::string&, const Box&)>;

// A parameter that is not trained, in the form it has here; null: it has the saved numbers already.
graph::BufferRef read_frozen(const model::ParamStore::Physical& entry, graph::Engine& engine,
                             const ReadLogical& read, const Task* task) {
  const Tensor saved = model::joined_part(engine, entry.spec, read, task).to(entry.dtype, task);
  const Tensor own =
      engine.processes() == 1 ? entry.buffer->read(task) : entry.buffer->read_part(task);
  return same_bytes(saved, own) ? nullptr : model::upload_own(engine, saved, entry.spec);
}

// Quantized parameters are never trained, and rounding their numbers again might change them.
void check_quantized(const ckpt::WeightFiles& files, const model::ParamStore& store,
                     const Task* task) {
  const std::vector<model::ParamStore::Physical>& all = store.physical();
  for (size_t i = 0; i < all.size(); ++i) {
    const model::ParamStore::Physical& entry = all[i];
    if (entry.scale_of >= 0 || !entry.is_quantized()) continue;
    check_task(task);
    const auto read = [&](const std::string& name, size_t) {
      return files.tensor_copy(name, task);
    };
    const Tensor saved = model::join_logical(entry.spec, DType::f32, read, task);
    if (same_bytes(saved, store.dequantized(i, all, task))) continue;
    fail_with_hint("load the model that the run began with, or the model folder of the checkpoint",
                   Code::failed_precondition,
                   "{} is frozen, stored as {}, and holds other numbers than the checkpoint",
                   entry.name, entry.format->name);
  }
}

// The weights in physical layout, where they differ. Trained ones come back as the masters they
// were, to the bit.
std::vector<std::pair<size_t, graph::BufferRef>>
read_weights(const ckpt::WeightFiles& files, const StepRunner& runner, const Task* task) {
  const model::ParamStore& store = runner.model()->params();
  const ReadLogical read = [&](const std::string& name, const Box& box) {
    return files.part_copy(name, box, task);
  };
  const std::vector<size_t>& trained = runner.spec().trained;
  std::vector<std::pair<size_t, graph::BufferRef>> made;
  for (size_t index = 0; index < store.physical().size(); ++index) {
    const model::ParamStore::Physical& entry = store.physical()[index];
    const bool is_trained = std::binary_search(trained.begin(), trained.end(), index);
    if (!is_trained && (entry.scale_of >= 0 || entry.is_quantized())) continue;
    check_task(task);
    graph::BufferRef buffer = is_trained
                                  ? model::upload_joined(runner.engine(), entry.spec, read, task)
                                  : read_frozen(entry, runner.engine(), read, task);
    if (buffer != nullptr) made.emplace_back(index, std::move(buffer));
  }
  return made;
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

// Values changed by set_f64 come back, unless the options they started from were changed on
// purpose.
Hyper read_hyper(const Json& record, const StepRunner& runner) {
  const Json saved = member<Json>(record, "options");
  Hyper hyper = hyper_of(runner.options());
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
                   "the checkpoint holds no position of the data");
  }
  const int64_t before = source->position();
  try {
    source->seek(position.get<int64_t>());
  } catch (...) {
    source->seek(before);
    throw;
  }
}

// The restore is done by then: a file of metrics that cannot be written does not undo it.
void rewind_sinks(const Trainer::State& state) {
  const int64_t step = state.runner.counters().step;
  for (const auto& sink : state.sinks) {
    try {
      sink->rewind(step);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "events after step {} stay in a sink: {}", step, error.what());
    }
  }
}

// trainer.json in numbers, compared with the trainer it is for.
struct Record {
  Json json;
  Counters counters;
  Accumulated accumulated;
  Hyper hyper;
  std::string script_state;
};

Record read_record(const std::string& dir, const StepRunner& runner) {
  Record made;
  made.json = parse_json(read_text(join_path(dir, "trainer.json")), "trainer.json");
  const auto format = member<int64_t>(made.json, "format");
  if (format != 1) {
    fail(Code::unimplemented, "trainer.json has format {}, this version reads 1", format);
  }
  try {
    check_options(made.json, runner);
    made.counters = read_counters(made.json);
    made.accumulated = read_accumulated(made.json);
    made.hyper = read_hyper(made.json, runner);
    const Json script = made.json.value("script_state", Json(nullptr));
    if (!script.is_null()) made.script_state = script.dump();
  } catch (const nlohmann::json::exception& error) {
    fail(Code::data_loss, "trainer.json: {}", error.what());
  }
  return made;
}

// A config that cannot be read is damage of the checkpoint, not a mistake of the caller.
model::ModelConfig saved_config(const Source& folder) {
  try {
    return model::read_config(folder);
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument) throw;
    throw Error(Code::data_loss, error.text(), error.hint());
  }
}

} // namespace

Restored restore_checkpoint(Trainer& trainer, BatchSource* source, const std::string& dir,
                            Task* task) {
  Trainer::State& state = trainer.state();
  StepRunner& runner = state.runner;
  // It may be the one that is wanted.
  graph::run_on_first(runner.engine(), [&] { state.save.wait_until_idle(task); });
  const store::TransferTask transfers(task);
  graph::Engine& engine = runner.engine();
  graph::run_on_all(
      engine, [&] { ckpt::verify_checkpoint(dir, task, engine.process(), engine.processes()); });
  const std::unique_ptr<Source> folder = open_source(join_path(dir, "model"));
  const ckpt::WeightFiles files(*folder);
  check_model(files, runner.model()->params());
  const Record record = read_record(dir, runner);
  check_config(saved_config(*folder), runner.model()->config());
  RestoredState restored;
  graph::run_on_all(engine, [&] { // each reads its parts
    restored.arrays = read_state(runner, dir, record.accumulated.batches > 0, task);
    restored.weights = read_weights(files, runner, task);
  });
  check_quantized(files, runner.model()->params(), task);
  restored.counters = record.counters;
  restored.accumulated = record.accumulated;
  restored.hyper = record.hyper;
  seek(source, record.json);

  // From here on nothing fails.
  runner.restore(std::move(restored));
  state.restored = true;
  rewind_sinks(state);
  return {record.counters.step, record.script_state};
}

} // namespace dllm::train

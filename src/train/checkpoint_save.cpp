#include "train/checkpoint.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint_folder.h"
#include "train/state.h"
#include "train/state_file.h"

#include <nlohmann/json.hpp>

namespace dllm::train {

const Schema& checkpoint_schema() {
  static const Schema schema(
      "checkpoint",
      {
          option_i64("keep_last", 0, 0, 1 << 20, "Checkpoints of the run to keep; 0: all."),
          option_str("script_state", "", "JSON text of a script, handed back by restore."),
          option_bool("wait", true,
                      "Come back when the checkpoint is durable. (Writing is synchronous so far.)"),
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

Json trainer_json(const Trainer& trainer, const BatchSource* source,
                  const std::string& script_state) {
  const StepRunner& runner = trainer.state().runner;
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

} // namespace

std::string save_checkpoint(const Trainer& trainer, const BatchSource* source,
                            const std::string& root, const Options& options, Task* task) {
  trainer.sync();
  const StepRunner& runner = trainer.state().runner;
  const int64_t step = runner.counters().step;
  const std::string final_folder = join_path(root, ckpt::checkpoint_name(step));
  const bool may_replace = options.boolean("overwrite") || runner.accumulated().batches > 0;
  if (!may_replace && file_exists(join_path(final_folder, ckpt::kCommitName))) {
    fail_with_hint("take a step first, or set overwrite", Code::already_exists,
                   "{} is saved already", final_folder);
  }
  const std::string record =
      trainer_json(trainer, source, options.str("script_state")).dump(1) + "\n";

  ckpt::CheckpointWriter writer(root, step, task);
  Options save(model::save_schema());
  save.set_str("dtype", "f32"); // the masters, bit for bit
  model::save_model(*runner.model(), writer.path("model"), save, task);
  write_state(runner, writer.path("state/rank_000.safetensors"), task);
  write_file_atomic(writer.path("state/layout.json"), layout_text(runner));
  write_file_atomic(writer.path("trainer.json"), record);
  return writer.commit(options.i64("keep_last"), task);
}

} // namespace dllm::train

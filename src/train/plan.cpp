#include "train/plan.h"

#include "base/error.h"
#include "noise/objective.h"
#include "train/offload/offloaded_update.h"
#include "train/step/feeds.h"
#include "train/step/fitted_step.h"
#include "train/step/program_spec.h"
#include "train/trainer.h"

#include <algorithm>

namespace dllm::train {
namespace {

// Returns the arrays of the loss for rows of arbitrary tokens. A program depends on their shapes
// alone.
Batch planned_feed(const noise::Objective& objective, const model::ModelConfig& config,
                   int64_t batch, int64_t length) {
  Batch rows;
  rows.set("ids", Tensor(DType::i32, {batch, length}));
  if (noise::objective_facts(objective.name()).rows == noise::RowKind::given) {
    Tensor targets(DType::i32, {batch, length});
    std::ranges::fill(targets.mutable_as<int32_t>(), -1);
    rows.set("targets", targets);
    rows.set("weights", Tensor(DType::f32, {batch, length}));
    return objective.with_state(objective.feed(rows, config), objective.first_state());
  }
  noise::PrepareContext context = noise::prepare_context(objective, config);
  if (context.mask_id < 0) context.mask_id = config.vocab_size - 1;
  return objective.with_state(objective.feed(objective.prepare(rows, 0, 0, context), config),
                              objective.first_state());
}

} // namespace

model::Job training_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options,
                        const model::FormOf& in_files) {
  const noise::ObjectiveRef objective = noise::make_objective(options.str("objective"));
  model::ModelConfig whole = config;
  model::add_parts(whole, objective->new_parts(config));
  objective->filler().add_to(whole);
  const auto model = model::planned_model(engine, whole, options, in_files);
  Options settings(trainer_schema());
  settings.set_i64("remat", options.boolean("remat") ? 1 : 0);
  settings.set_str("activations", options.str("activations"));
  settings.set_i64("memory", options.i64("memory"));
  settings.set_str("offload", options.boolean("offload") ? kOffloadToRam : "");
  settings.set_i64("offload_mib", options.i64("offload_mib"));
  settings.set_f64("ema", options.boolean("ema") ? 0.999 : 0.0);
  settings.set_str("optimizer", find_optimizer(options.str("optimizer")).name);
  model->params().make_masters(model->trained(objective->trained_parts()));
  const ProgramSpec spec = program_spec(*model, *objective, settings);

  model::Job job;
  model::count_parameters(*model, job);
  job.moments = resident_state_bytes(spec);
  if (spec.offloads()) {
    job.offloaded = state_bytes(spec);
    const OffloadedUpdate update(spec);
    job.window = update.window_bytes();
    job.later = update.update_bytes();
  }
  const graph::Mesh& mesh = engine->mesh();
  const int64_t parts = mesh.size(batch_axes(mesh)), batch = options.i64("batch");
  if (batch % parts != 0) {
    fail_with_hint("choose a batch that is a multiple of it", Code::invalid_argument,
                   "a batch of {} rows does not divide by the {} ranks that share it", batch,
                   parts);
  }
  const Batch feed =
      planned_feed(*objective, config, batch / parts, model::planned_length(config, options));
  if (spec.memory == 0) {
    job.graph = build_fused(spec, feed).graph;
    return job;
  }
  FittedStep fitted = fitted_step(spec, ProgramKind::fused, feed);
  job.graph = std::move(fitted.built.graph);
  job.recomputed = fitted.recompute;
  return job;
}

} // namespace dllm::train

#include "decode/plan.h"

#include "decode/decoder_setup.h"
#include "decode/step_graph.h"
#include "decode/step_shape.h"

#include <bit>
#include <numeric>

namespace dllm::decode {
namespace {

// Every row asks for the same window at the end of its canvas.
struct Planned {
  Slot slot;
  Ask ask;
  std::vector<PassRow> rows;
};

Planned plan_rows(const model::ModelConfig& config, const Options& options, const Policy& policy) {
  const bool prefill = options.str("what") == "prefill";
  const int64_t length = model::planned_length(config, options);
  const int64_t asked = prefill ? length : options.i64("window");
  const int64_t window = asked > 0 ? std::min(asked, length) : length;
  Planned made;
  made.slot.ids.resize(static_cast<size_t>(length));
  Ask& ask = made.ask;
  ask.begin = length - window;
  ask.end = length;
  ask.cached = asked > 0;
  if (!prefill) {
    ask.positions.resize(static_cast<size_t>(window));
    std::iota(ask.positions.begin(), ask.positions.end(), ask.begin);
    if (policy.soft_width() > 0) ask.soft.resize(1);
  }
  return made;
}

} // namespace

model::Job decoding_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options) {
  const auto model = model::planned_model(engine, config, options);
  Options settings(decoder_schema(options.str("policy")));
  const noise::ScheduleRef schedule = schedule_of(settings);
  const auto policy = make_policy(options.str("policy"), policy_setup(*model, settings, *schedule));
  Planned planned = plan_rows(config, options, *policy);
  planned.slot.sight = sight_of(config, settings);
  const int64_t batch = options.i64("batch");
  planned.rows.assign(static_cast<size_t>(batch), {&planned.slot, &planned.ask, 0});

  // As DecodeState would lie.
  const CacheShape kept{static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(batch))),
                        row_capacity(planned.slot.length())};
  StepShape shape = pass_shape(config, planned.rows, kept);
  if (!planned.ask.positions.empty() || !planned.ask.cached)
    shape.capacity = head_capacity(batch * static_cast<int64_t>(planned.ask.positions.size()));
  model::Job job;
  job.weights = model::parameter_bytes(*model);
  if (planned.ask.cached) {
    job.cache = 2 * config.layers * kept.rows * kept.capacity * config.kv_size() *
                dtype_size(config.cache_dtype);
  }
  job.graph = std::make_shared<graph::Graph>("denoise");
  build_step(*job.graph, *model, step_settings(*model, settings, *policy), shape);
  return job;
}

} // namespace dllm::decode

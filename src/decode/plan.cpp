#include "decode/plan.h"

#include "base/error.h"
#include "decode/decoder_setup.h"
#include "decode/loop_program.h"
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

// The policy's rule as a graph where the decoder would use it, else null.
std::unique_ptr<LoopRule> planned_loop(const graph::Engine& engine, const Options& options,
                                       const Policy& policy) {
  const std::string& wanted = options.str("loop");
  const bool possible = wanted == "device" || (wanted == "auto" && engine.runs_ahead());
  if (!possible || options.str("what") != "decode") return nullptr;
  LoopOffer offer = policy.loop();
  if (offer.rule == nullptr && wanted == "device")
    fail_with_hint("set loop to auto or host", Code::unimplemented,
                   "policy {} cannot run as a loop on the device: {}", options.str("policy"),
                   offer.why_not);
  return std::move(offer.rule);
}

} // namespace

model::Job decoding_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options) {
  const auto model = model::planned_model(engine, config, options);
  Options settings(decoder_schema(options.str("policy")));
  const noise::ScheduleRef schedule = schedule_of(settings);
  const auto policy = make_policy(options.str("policy"), policy_setup(*model, settings, *schedule));
  Planned planned = plan_rows(config, options, *policy);
  planned.slot.span = attention_span_of(config, settings);
  const int64_t batch = options.i64("batch");
  planned.rows.assign(static_cast<size_t>(batch), {&planned.slot, &planned.ask, 0});

  // As DecodeState would lie.
  const std::vector<model::StateStack> stacks = model::state_stacks(config);
  CacheShape kept{static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(batch))),
                  row_capacity(planned.slot.length())};
  if (model::has_saved(stacks)) kept.saved_rows = kept.rows;
  StepShape shape = pass_shape(config, planned.rows, kept);
  model::Job job;
  job.weights = model::parameter_bytes(*model);
  if (planned.ask.cached) {
    for (const model::StateStack& stack : stacks) job.cache += stack.bytes({kept.rows, kept.capacity});
  }
  const StepSettings step = step_settings(*model, settings, *policy);
  const auto block = static_cast<int64_t>(planned.ask.positions.size());
  if (const auto rule = planned_loop(*engine, options, *policy)) {
    job.graph = std::make_shared<graph::Graph>("denoise_loop");
    build_loop(*job.graph, *model, step, *rule, loop_shape(shape, step, block, block));
    return job;
  }
  if (block > 0 || !planned.ask.cached) shape.capacity = head_capacity(batch * block);
  job.graph = std::make_shared<graph::Graph>("denoise");
  build_step(*job.graph, *model, step, shape);
  return job;
}

} // namespace dllm::decode

#include "base/error.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "model/builder.h"
#include "model/families/family.h"
#include "model/param_form.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

// Parameters as load_model would keep them, without one of their numbers.
std::vector<Builder::Parameter> planned_parameters(const ModelConfig& config, DType dtype) {
  std::vector<Builder::Parameter> table;
  for (const ParamSpec& spec : find_family(config.family).params(config)) {
    const DType own = storage_dtype(spec.role, dtype);
    table.push_back({spec.name, spec.shape(), own});
    if (own == DType::i8)
      table.push_back({spec.name + ".scale", spec.shape().without(-1), DType::f32});
  }
  return table;
}

struct Job {
  std::shared_ptr<graph::Graph> graph;
  int64_t weights = 0; // bytes, plain
  int64_t moments = 0; // bytes of the optimizer's state
  int64_t cache = 0;   // bytes of K and V kept between decoding steps
};

// A training step up to its gradients, over every token; the optimizer's own arrays are counted
// beside it.
void finish_training(Builder& builder, graph::Value hidden, Job& job) {
  const int64_t rows = hidden.dim(0) * hidden.dim(1);
  const Head head = builder.head();
  const graph::Value targets = job.graph->input("batch:targets", DType::i32, {rows});
  const graph::Value loss =
      graph::sum(graph::linear_cross_entropy(graph::reshape(hidden, {rows, hidden.dim(2)}),
                                             head.weight, head.bias, head.scale, targets, {},
                                             head.softcap),
                 {0});
  const std::vector<graph::Value> gradients = graph::gradients(loss, builder.parameters());
  for (size_t i = 0; i < gradients.size(); ++i) {
    job.graph->output("grad:" + std::to_string(i), gradients[i]);
    job.moments += 2 * gradients[i].shape().count() * 4;
  }
}

// A decoding step of `window` positions a row over a cache of `length`.
void use_cache(Job& job, const ModelConfig& config, int64_t batch, int64_t window, int64_t length,
               ForwardInputs& inputs) {
  constexpr int64_t kTile = 64; // caches are whole tiles of keys
  const int64_t capacity = (length + kTile - 1) / kTile * kTile;
  const Shape kept{config.layers * batch * capacity, config.kv_size()};
  inputs.positions = job.graph->input("batch:positions", DType::i32, {batch, window});
  inputs.mask.and_key_limit(job.graph->input("batch:limit", DType::i32, {batch, window}));
  inputs.cache.keys = job.graph->input("keys", config.cache_dtype, kept);
  inputs.cache.values = job.graph->input("values", config.cache_dtype, kept);
  inputs.cache.write_at = job.graph->input("batch:write_at", DType::i32, {batch * window});
  inputs.cache.read_at = job.graph->input("batch:read_at", DType::i32, {batch, capacity});
  job.cache = 2 * kept.count() * dtype_size(config.cache_dtype);
}

Job make_job(const ModelConfig& config, const Options& options) {
  const std::string& what = options.str("what");
  const std::string& form = options.str("dtype");
  const bool train = what == "train";
  const DType dtype = train || form == "f32" ? DType::f32
                      : form == "int8"       ? DType::i8
                                             : DType::bf16;
  const int64_t batch = options.i64("batch");
  const int64_t length = options.i64("length") > 0 ? options.i64("length") : config.max_positions;

  Job job;
  job.graph = std::make_shared<graph::Graph>(what);
  Builder builder(*job.graph, config, planned_parameters(config, dtype));
  builder.set_remat(train && options.boolean("remat"));
  for (const graph::Value& value : builder.parameters()) {
    job.weights += value.shape().count() * dtype_size(value.dtype());
  }
  ForwardInputs inputs;
  const int64_t window = what == "decode" ? std::min(options.i64("window"), length) : 0;
  const int64_t width = window > 0 ? window : length;
  inputs.ids = job.graph->input("batch:ids", DType::i32, {batch, width});
  if (config.time_conditioning)
    inputs.timesteps = job.graph->input("batch:timesteps", DType::f32, {batch});
  graph::Value block;
  if (config.attention == AttentionKind::block_causal && window == 0)
    block = job.graph->input("batch:block", DType::i32, {});
  if (window > 0)
    use_cache(job, config, batch, window, length, inputs);
  else
    inputs.mask = make_mask(config.attention, block);
  const ForwardOutputs made = builder.forward(inputs);
  const graph::Value hidden = made.hidden;
  if (window > 0) {
    job.graph->output("keys", made.cache.keys, "keys");
    job.graph->output("values", made.cache.values, "values");
  }
  if (train) {
    finish_training(builder, hidden, job);
  } else if (what == "decode") {
    // One denoising step looks at every position of the window and keeps a few numbers of each.
    graph::TokenStatisticsInputs statistics;
    const int64_t rows = batch * width;
    statistics.x = graph::reshape(hidden, {rows, config.hidden_size});
    const Head head = builder.head();
    statistics.weight = head.weight;
    statistics.bias = head.bias;
    statistics.scale = head.scale;
    statistics.softcap = head.softcap;
    statistics.temperature = job.graph->input("batch:temperature", DType::f32, {rows});
    statistics.top_k = job.graph->input("batch:top_k", DType::i32, {rows});
    statistics.top_p = job.graph->input("batch:top_p", DType::f32, {rows});
    statistics.uniform = job.graph->input("batch:uniform", DType::f32, {rows});
    const graph::TokenStatistics result = graph::token_statistics(statistics, 1);
    job.graph->output("argmax", result.argmax);
    job.graph->output("max_prob", result.max_prob);
    job.graph->output("draw", result.draw);
  } else {
    job.graph->output(what == "prefill" ? "hidden" : "logits",
                      what == "prefill" ? hidden : builder.logits(hidden));
  }
  return job;
}

} // namespace

const Schema& plan_schema() {
  static const Schema schema(
      "plan",
      {option_choice("what", "decode", {"train", "decode", "prefill", "forward"},
                     "The job to plan."),
       option_choice("format", "json", {"json", "graph"},
                     "json: bytes; graph: the program as text."),
       option_i64("batch", 1, 1, 1 << 20, "Rows."),
       option_i64("length", 0, 0, int64_t{1} << 30, "Tokens a row; 0: the model's longest."),
       option_i64("window", 0, 0, int64_t{1} << 30,
                  "decode: positions a step computes, the others' K and V are cached; 0: all, no "
                  "cache."),
       option_choice("dtype", "f32", {"f32", "bf16", "int8"},
                     "Form of the weights; training keeps f32 masters."),
       option_bool("remat", false,
                   "Training recomputes every layer instead of keeping what it made.")});
  return schema;
}

Json plan_model(graph::Engine& engine, const ModelConfig& config, const Options& options) {
  const Job job = make_job(config, options);
  if (options.str("format") == "graph") return {{"graph", graph::simplify(*job.graph)->dump()}};
  const std::shared_ptr<graph::Program> program = engine.compile(job.graph);
  const graph::PlanReport& report = program->plan();
  return {{"what", options.str("what")},
          {"batch", options.i64("batch")},
          {"weights", job.weights},
          {"moments", job.moments},
          {"cache", job.cache},
          {"inputs", report.input_bytes},
          {"outputs", report.output_bytes},
          {"constants", report.constant_bytes},
          {"arena", report.arena_bytes},
          {"peak", report.peak_bytes + job.moments},
          {"flops", report.flops}};
}

} // namespace dllm::model

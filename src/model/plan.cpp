#include "model/plan.h"

#include "base/error.h"
#include "base/number.h"
#include "base/threads/meter.h"
#include "graph/passes.h"
#include "model/adapters/adapter.h"
#include "model/files/load_parameters.h"
#include "model/network/token_batch.h"
#include "model/params/partition.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

constexpr const char* kAsInFiles = "auto"; // option dtype

// Returns the bytes that the program needs at one time, from the compiler's report. Some plugins
// for CPUs report the peak of arguments and results alone; such a peak is not used.
int64_t needed_bytes(const graph::CompiledReport& report) {
  const bool whole = report.peak_bytes >= report.argument_bytes &&
                     report.peak_bytes >= report.temporary_bytes && report.peak_bytes > 0;
  if (whole) return report.peak_bytes;
  return report.argument_bytes + report.output_bytes - report.alias_bytes + report.temporary_bytes;
}

Json compiled_json(const graph::CompiledReport& report) {
  Json fits = nullptr;
  if (report.known && report.device_bytes > 0) fits = needed_bytes(report) <= report.device_bytes;
  return {{"known", report.known},
          {"fits", fits},
          {"argument", report.argument_bytes},
          {"output", report.output_bytes},
          {"alias", report.alias_bytes},
          {"temporary", report.temporary_bytes},
          {"code", report.code_bytes},
          {"peak", report.peak_bytes},
          {"device", report.device_bytes},
          {"flops", report.flops},
          {"seconds", report.seconds},
          {"from_cache", report.from_cache}};
}

std::string hint_of(const Options& options) {
  if (options.str("what") != "train")
    return "try a smaller batch or length, dtype bf16 or int8, or a device with more memory";
  std::string hint =
      "try a smaller batch or length, engine option pjrt.compute = bf16, or a device "
      "with more memory";
  return options.boolean("remat") ? hint : "set remat; " + hint;
}

void add_texts(const graph::Program& program, Json& made) {
  for (const char* form : {"stablehlo", "optimized"}) {
    try {
      made[form] = program.text(form);
    } catch (const Error& error) {
      if (error.code() != Code::unimplemented) throw;
      made[form] = nullptr;
    }
  }
}

// Counts exchanges by operation; null on a mesh of one rank.
Json exchanges_json(const graph::Graph& graph, const graph::Mesh& mesh) {
  Json made;
  for (const auto& [name, exchange] : graph::count_exchanges(graph, mesh))
    made[name] = Json{{"calls", exchange.calls}, {"sent", exchange.bytes}};
  return made;
}

Json plan_json(graph::Engine& engine, const Job& job, const Options& options) {
  Json made = {{"what", options.str("what")},
               {"program", job.graph->name()},
               {"batch", options.i64("batch")},
               {"parameters", job.parameters},
               {"trained", options.str("what") == "train" ? job.trained : 0},
               {"weights", job.weights},
               {"adapter", job.adapter},
               {"loading", job.loading},
               {"moments", job.moments},
               {"offloaded", job.offloaded},
               {"window", job.window},
               {"cache", job.cache},
               {"recomputed", job.recomputed},
               {"attention", job.attention},
               {"mesh", engine.mesh().text()},
               {"exchanges", exchanges_json(*job.graph, engine.mesh())}};
  if (options.str("format") == "sizes") return made;
  std::shared_ptr<graph::Program> program;
  try {
    program = engine.compile(job.graph);
  } catch (const Error& error) {
    // An engine that runs graphs by itself has no compiler.
    if (error.code() != Code::resource_exhausted || !engine.runs_ahead()) throw;
    graph::CompiledReport none;
    none.known = true;
    made["compiled"] = compiled_json(none);
    made["compiled"]["fits"] = false;
    made["compiled"]["message"] = error.text();
    made["flops"] = graph::count_flops(*job.graph);
    made["hint"] = hint_of(options);
    return made;
  }
  const graph::PlanReport& report = program->plan();
  made["inputs"] = report.input_bytes;
  made["outputs"] = report.output_bytes;
  made["constants"] = report.constant_bytes;
  made["arena"] = report.arena_bytes;
  made["peak"] = std::max(report.peak_bytes + job.window, job.later);
  made["flops"] = report.flops;
  made["compiled"] = compiled_json(report.compiled);
  if (made["compiled"]["fits"] == false) made["hint"] = hint_of(options);
  if (options.boolean("texts")) add_texts(*program, made);
  return made;
}

std::vector<std::string> planned_formats() {
  std::vector<std::string> names{kAsInFiles};
  for (const WeightFormat* format : weight_formats()) names.emplace_back(format->name);
  return names;
}

} // namespace

const Schema& plan_schema() {
  static const Schema schema(
      "plan",
      {option_choice(
           "what", "decode", {"train", "decode", "prefill", "forward"},
           "The job to plan: a training step, a denoising step, a pass over a prompt that "
           "fills the cache, the logits of every position."),
       option_choice("format", "json", {"json", "sizes", "graph", "stablehlo", "optimized"},
                     "json: bytes; sizes: the bytes that are known before the program is compiled; "
                     "graph: the program as text; stablehlo: the program that a compiler gets; "
                     "optimized: the program that it made."),
       option_bool("texts", false,
                   "json: also holds the program's texts, stablehlo and optimized; null where an "
                   "engine has none."),
       option_i64("batch", 1, 1, 1 << 20, "Rows."),
       option_i64("length", 0, 0, int64_t{1} << 30, "Tokens of a row; 0: the model's longest row."),
       option_i64("window", 0, 0, int64_t{1} << 30,
                  "decode: positions that a step computes, K and V of the others are cached; 0: "
                  "all positions, no cache."),
       option_choice("dtype", "f32", planned_formats(),
                     "Form of the weights; auto: that of the model's files. Training keeps f32 "
                     "masters of the weights that it trains."),
       option_str(
           "adapter", "",
           "train: JSON of the options of kind adapter, as {\"rank\": 16}: the base is frozen "
           "and this adapter is trained; empty: all weights are trained."),
       option_bool("remat", false,
                   "Training recomputes every layer instead of keeping its values."),
       option_choice("activations", "f32", {"f32", "bf16"},
                     "What the layers keep of the forward pass of training for the backward pass."),
       option_i64("memory", 0, 0, INT64_MAX,
                  "Most bytes of a training step, with offload the window offload_mib in place of "
                  "the moments: the fewest values of a layer that make it fit are recomputed; 0: "
                  "no bound."),
       option_bool("offload", false,
                   "Training keeps the optimizer's arrays and the average outside of the engine."),
       option_i64("offload_mib", 64, 1, 1 << 20,
                  "Most MiB of offloaded arrays in memory at one time, on a rank."),
       option_bool("ema", false, "Training keeps a moving average of the weights."),
       option_str("objective", "mdlm", "Objective of training, with its own defaults."),
       option_str("optimizer", "adamw", "Optimizer of training, with its own defaults."),
       option_str("policy", "low_confidence", "Policy of decoding, with its own defaults."),
       option_choice("loop", "auto", {"auto", "host", "device"},
                     "decode: device: all steps of a block as one program; host: one step; auto: "
                     "what a decoder does on this engine.")});
  return schema;
}

PlannedFiles planned_files(const Source& source, const Options& options) {
  OpenedModel opened = open_model(source);
  PlannedFiles made{opened.config, nullptr, nullptr};
  if (options.str("dtype") != kAsInFiles) return made;
  std::shared_ptr<const WeightSource> weights = open_weights(opened, source);
  made.config = opened.config; // the files may hold a head of their own
  made.weights = weights;
  made.in_files = kept_formats(*weights, partitioned_params(made.config, graph::Mesh()));
  return made;
}

std::shared_ptr<Model> planned_model(std::shared_ptr<graph::Engine> engine,
                                     const ModelConfig& config, const Options& options,
                                     const FormOf& in_files) {
  const std::string &adapter = options.str("adapter"), &dtype = options.str("dtype");
  const bool train = options.str("what") == "train", trains_all = train && adapter.empty();
  if (!train && !adapter.empty()) {
    fail_with_hint("set what to train", Code::invalid_argument,
                   "option adapter plans a training, but what is {}", options.str("what"));
  }
  const WeightFormat& format = weight_format(trains_all || dtype == kAsInFiles ? "f32" : dtype);
  const auto model = trains_all || in_files == nullptr
                         ? sketch_model(std::move(engine), config, format)
                         : sketch_model(std::move(engine), config, in_files);
  if (adapter.empty()) return model;
  Options settings(adapter_schema());
  settings.set_json(parse_json(adapter, "option adapter"));
  add_adapter(*model, adapter_options(AdapterOptions().name, settings));
  return model;
}

int64_t planned_length(const ModelConfig& config, const Options& options) {
  return options.i64("length") > 0 ? options.i64("length") : config.max_positions;
}

int64_t parameter_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const ParamStore::Physical& entry : model.params().physical())
    bytes += entry.part.count() * dtype_size(entry.dtype);
  return bytes;
}

namespace {

int64_t loading_bytes(const Model& model) {
  // Pairs: bytes that stay, and bytes that panels are made from.
  std::vector<std::pair<int64_t, int64_t>> stacks;
  for (const ParamStore::Physical& entry : model.params().physical()) {
    const int64_t bytes = entry.part.count() * dtype_size(entry.dtype);
    const ParamRole role = entry.spec.role;
    const bool plain = entry.scale_of >= 0 || is_vector(role) || role == ParamRole::positions ||
                       (role == ParamRole::embedding && !entry.format->is_blocks());
    stacks.emplace_back(bytes, plain ? 0 : bytes);
  }
  std::stable_sort(stacks.begin(), stacks.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  int64_t there = 0, most = 0;
  for (const auto& [bytes, twice] : stacks) {
    there += bytes;
    most = std::max(most, there + twice);
  }
  return most;
}

} // namespace

void count_parameters(const Model& model, Job& job) {
  const ParamStore::Test trained = model.trained();
  for (const ParamStore::Physical& entry : model.params().physical()) {
    if (entry.spec.part.starts_with(kAdapterPart))
      job.adapter += entry.part.count() * dtype_size(entry.dtype);
    if (entry.scale_of >= 0) continue;
    job.parameters += entry.spec.shape().count();
    if (trained(entry)) job.trained += entry.spec.shape().count();
  }
  job.weights = parameter_bytes(model);
  job.loading = loading_bytes(model);
}

Job forward_job(const std::shared_ptr<graph::Engine>& engine, const ModelConfig& config,
                const Options& options, const FormOf& in_files) {
  const std::shared_ptr<Model> model = planned_model(engine, config, options, in_files);
  const int64_t batch = options.i64("batch"), length = planned_length(config, options);
  Job job;
  count_parameters(*model, job);
  job.graph = std::make_shared<graph::Graph>("forward");
  Builder builder(*job.graph, *model);
  ForwardInputs inputs;
  inputs.ids = job.graph->input("batch:ids", DType::i32, {batch, length});
  if (config.time_conditioning)
    inputs.timesteps = job.graph->input("batch:timesteps", DType::f32, {batch});
  graph::Value block;
  if (config.attention == AttentionKind::block_causal)
    block = job.graph->input("batch:block", DType::i32, {});
  inputs.mask = make_mask(config.attention, block);
  job.graph->output("logits", builder.logits(builder.forward(inputs).hidden));
  job.graph = graph::simplify(*job.graph);
  return job;
}

std::string plan_text(graph::Engine& engine, const Job& job, const Options& options) {
  const std::string& format = options.str("format");
  if (format == "graph") return job.graph->dump();
  if (format == "json" || format == "sizes") return plan_json(engine, job, options).dump();
  return engine.compile(job.graph)->text(format);
}

namespace {

// Wide, because a config of 600 bytes can request 2^70 numbers.
__extension__ using Wide = unsigned __int128;

Wide numbers_of(const ParamSpec& spec) {
  Wide count = static_cast<Wide>(spec.copies());
  for (const int64_t extent : spec.element.dims()) count *= static_cast<Wide>(extent);
  return count;
}

// Includes the table next to the matrix where the format has one.
Wide bytes_of(const ParamSpec& spec, const WeightFormat& format) {
  const Wide numbers = numbers_of(spec);
  const Wide bytes =
      numbers / static_cast<Wide>(format.block) * static_cast<Wide>(format.block_bytes);
  const int64_t width = spec.element.rank() > 0 ? std::max<int64_t>(1, spec.element.dim(-1)) : 1;
  if (!format.has_table()) return bytes;
  return bytes +
         numbers / static_cast<Wide>(width) * static_cast<Wide>(format.table_width(width)) * 4;
}

// Lists the largest stacks: "embed 64.0 GiB, layers.q 12.0 GiB, ...".
std::string largest(std::vector<std::pair<Wide, std::string>> stacks) {
  constexpr size_t kShown = 3;
  std::stable_sort(stacks.begin(), stacks.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(kShown, stacks.size()); ++i) {
    text += (i > 0 ? ", " : "") + stacks[i].second + " " +
            memory_text(static_cast<double>(stacks[i].first));
  }
  return text + (stacks.size() > kShown ? ", ..." : "");
}

} // namespace

void check_memory(const graph::Engine& engine, const std::vector<ParamSpec>& specs,
                  const FormOf& form_of) {
  Wide numbers = 0, bytes = 0;
  std::vector<std::pair<Wide, std::string>> stacks;
  for (const ParamSpec& spec : specs) {
    const Wide own = bytes_of(spec, form_of(spec));
    numbers += numbers_of(spec);
    bytes += own;
    stacks.emplace_back(own, spec.name);
  }
  const int64_t limit = engine.i64("memory_limit"), machine = machine_memory();
  const auto refuse = [&](int64_t room, const char* what) {
    if (room <= 0 || bytes <= static_cast<Wide>(room)) return;
    fail_with_hint("choose a smaller config, or dtype bf16 or int8", Code::resource_exhausted,
                   "the model has {} parameters, {} ({}); {} {}", numbers,
                   memory_text(static_cast<double>(bytes)), largest(std::move(stacks)), what,
                   memory_text(static_cast<double>(room)));
  };
  refuse(limit, "the engine's memory_limit is");
  refuse(machine, "this machine has");
}

} // namespace dllm::model

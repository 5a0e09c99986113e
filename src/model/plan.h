#pragma once
// Plans a program from shapes alone: its bytes, its flops, and whether the device of a compiler has
// room for it. The caller passes the program of the job (train/step/programs.h,
// decode/method/setup.h).

#include "base/options.h"
#include "graph/engine.h"
#include "model/files/weights.h"
#include "model/model.h"
#include "model/params/param_map.h"
#include "tensor/weight_format.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::model {

// Returns the format in which a stack of parameters is kept.
using FormOf = std::function<const WeightFormat&(const ParamSpec&)>;

struct Job {
  std::shared_ptr<graph::Graph> graph;
  int64_t weights = 0;                 // bytes of the stored parameters, without panels
  int64_t adapter = 0;                 // bytes of them that belong to an adapter
  int64_t parameters = 0, trained = 0; // numbers of the parameters, and of the trained ones
  int64_t loading = 0;   // most bytes of parameters in memory at one time while a model is loaded
  int64_t moments = 0;   // bytes of the optimizer's state on the engine
  int64_t offloaded = 0; // bytes of the optimizer's state outside of the engine
  int64_t window = 0;    // bytes of the slices of this state that an update holds
  // Least bytes on the engine during an update. The update follows the graph, whose arena stays.
  int64_t later = 0;
  int64_t cache = 0; // bytes of K and V that are kept between decoding steps
  // Values of a layer that training recomputes so that a step fits option memory.
  int64_t recomputed = 0;
  std::string attention = {}; // of the model: "causal" "bidirectional" ...
};

// The schema "plan": what format batch length window dtype adapter remat activations objective ...
const Schema& plan_schema();

// The shapes that a plan is about. For dtype auto also the formats of the files.
struct PlannedFiles {
  ModelConfig config;
  std::shared_ptr<const WeightSource> weights; // null where option dtype names a format
  FormOf in_files;                             // null without `weights`
};
// Reads the config, and for dtype auto the heads of the files.
PlannedFiles planned_files(const Source& source, const Options& options);

// Returns the model that a plan is about. A training of all weights has f32 masters whatever option
// dtype is. With option adapter the base has the format of dtype, and the model has the adapter.
// in_files: the formats for dtype auto.
std::shared_ptr<Model> planned_model(std::shared_ptr<graph::Engine> engine,
                                     const ModelConfig& config, const Options& options,
                                     const FormOf& in_files = nullptr);
// Returns the length of a row.
int64_t planned_length(const ModelConfig& config, const Options& options);
int64_t parameter_bytes(const Model& model);
// Counts the parameters of a model and their bytes. `loading` is the most bytes of parameters in
// memory at one time while the model is loaded. The largest stacks are loaded first, and a matrix
// is in memory twice while its panels are made.
void count_parameters(const Model& model, Job& job);

// Returns the job of what = forward: it computes the logits of every position.
Job forward_job(const std::shared_ptr<graph::Engine>& engine, const ModelConfig& config,
                const Options& options, const FormOf& in_files = nullptr);

// Compiles the job and returns the text of option format. All bytes are bytes of one device. The
// JSON is {"what", "program", "batch", "parameters", "trained", "weights", "adapter", "loading",
// "moments", "offloaded", "window", "cache", "recomputed", "attention", "mesh", "exchanges"}.
// Format sizes ends here and compiles nothing. The plan of this library adds "inputs", "outputs",
// "constants", "arena", "peak" and "flops".
// "compiled" is {"known", "fits", "argument", "output", "alias", "temporary", "code", "peak",
// "device", "flops", "seconds", "from_cache"}. "fits" is null when the compiler or the device does
// not report it. A program that is too big for its compiler does not fit, and "message" is then the
// error of the compiler. "hint" is there when the program does not fit.
std::string plan_text(graph::Engine& engine, const Job& job, const Options& options);

// Fails with resource_exhausted when the stacks need more than the engine's memory_limit or the
// machine's memory. The error names the sum and the largest stacks. `form_of` returns the format
// that a stack is stored in.
void check_memory(const graph::Engine& engine, const std::vector<ParamSpec>& specs,
                  const FormOf& form_of);

} // namespace dllm::model

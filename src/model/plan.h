#pragma once
// What a program would need, from shapes alone: bytes, flops, and whether a compiler's device holds
// it. The caller passes the program that a job runs: train/programs.h, decode/decoder/decoder.h.

#include "base/options.h"
#include "graph/engine.h"
#include "model/model.h"

#include "model/param_map.h"
#include "tensor/weight_format.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::model {

struct Job {
  std::shared_ptr<graph::Graph> graph;
  int64_t weights = 0;    // bytes of the parameters, plain
  int64_t loading = 0;    // most of them that is there at a time while a model is loaded
  int64_t moments = 0;    // of the optimizer's state
  int64_t cache = 0;      // of K and V kept between decoding steps
  int64_t recomputed = 0; // values of a layer that training gives up to fit option memory
};

const Schema&
plan_schema(); // "plan": what format batch length window dtype remat activations objective ...

// The model a plan is about; training has f32 masters whatever option dtype says.
std::shared_ptr<Model> planned_model(std::shared_ptr<graph::Engine> engine,
                                     const ModelConfig& config, const Options& options);
int64_t planned_length(const ModelConfig& config, const Options& options); // of a row
int64_t parameter_bytes(const Model& model);
// The largest stacks come first, and a matrix is there twice while its panels are made.
int64_t loading_bytes(const Model& model);

// what = forward: the logits of every position.
Job forward_job(const std::shared_ptr<graph::Engine>& engine, const ModelConfig& config,
                const Options& options);

// Compiles the job and returns the text of option format. json: {"what", "program", "batch",
// "weights", "loading", "moments", "cache", "recomputed"; by our own plan "inputs", "outputs", "constants", "arena", "peak",
// "flops"; "compiled": {"known", "fits", "argument", "output", "alias", "temporary", "code",
// "peak", "device", "flops", "seconds", "from_cache"}, and "hint" when it does not fit}. Bytes of
// one device. fits is null when the compiler or the device does not report it; a program that is
// too big for its compiler does not fit, "message" is what the compiler said.
std::string plan_text(graph::Engine& engine, const Job& job, const Options& options);

// form_of: the format a stack is kept in. resource_exhausted with the sum and the largest stacks when it is above the
// engine's memory_limit or the machine's memory.
void check_memory(const graph::Engine& engine, const std::vector<ParamSpec>& specs,
                  const std::function<const WeightFormat&(const ParamSpec&)>& form_of);

} // namespace dllm::model

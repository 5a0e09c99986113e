// Finds a step that fits its memory. Planning decides which values the backward pass recomputes.

#include "train/step/fitted_step.h"
#include "base/error.h"
#include "graph/engine.h"
#include "model/plan.h"
#include "train/offload/offloaded_update.h"

#include <algorithm>

namespace dllm::train {
namespace {

// More values than any layer keeps.
constexpr int64_t kMostRecomputed = 24;

StepGraph build_step_graph(const ProgramSpec& spec, ProgramKind kind, const Batch& feed) {
  switch (kind) {
  case ProgramKind::fused: return build_fused(spec, feed);
  case ProgramKind::accumulate: return build_accumulate(spec, feed);
  case ProgramKind::apply: return build_apply(spec);
  }
  fail(Code::internal, "unknown kind of program");
}

// Bytes that a step needs and that the plan of its program does not have.
struct NextToPlan {
  int64_t arrays = 0; // of the trainer and the model, or slices of them: in addition to the plan
  int64_t later = 0;  // least bytes of the whole step
};

// Returns them for a program. The slices of an offloaded update follow the program that makes its
// gradients, whose arena stays.
NextToPlan bytes_next_to_plan(const ProgramSpec& spec, ProgramKind kind) {
  const bool accumulates = kind == ProgramKind::accumulate;
  if (!spec.offloads() || accumulates) return {accumulates ? resident_state_bytes(spec) : 0, 0};
  const OffloadedUpdate update(spec);
  // apply reads gradients and no parameter.
  if (kind == ProgramKind::apply)
    return {model::parameter_bytes(*spec.model), update.update_bytes()};
  return {update.window_bytes(), update.update_bytes()};
}

FittedStep step_with(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
                     const NextToPlan& more) {
  FittedStep step{build_step_graph(spec, kind, feed), nullptr, spec.recompute, 0};
  step.program = spec.model->engine().compile(step.built.graph);
  step.peak_bytes = std::max(step.program->plan().peak_bytes + more.arrays, more.later);
  return step;
}

double gigabytes(int64_t bytes) {
  return static_cast<double>(bytes) * 1e-9;
}

} // namespace

FittedStep fitted_step(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
                       const Task* task) {
  if (spec.memory == 0) return step_with(spec, kind, feed, {});
  const graph::Engine& engine = spec.model->engine();
  if (engine.runs_ahead()) {
    fail_with_hint("set remat, or a smaller batch", Code::unimplemented,
                   "engine {} does not plan its memory, which option memory needs", engine.kind());
  }
  const NextToPlan more = bytes_next_to_plan(spec, kind);
  int64_t least = INT64_MAX;
  ProgramSpec tried = spec;
  for (tried.recompute = 0; tried.recompute <= kMostRecomputed; ++tried.recompute) {
    check_task(task);
    FittedStep step = step_with(tried, kind, feed, more);
    if (step.peak_bytes <= spec.memory) return step;
    least = std::min(least, step.peak_bytes);
    if (kind == ProgramKind::apply) break; // apply has no layers
  }
  fail_with_hint(
      spec.offloads()
          ? "use a smaller batch or length with accumulate, a smaller offload_mib, or an adapter"
          : "use a smaller batch or length, accumulate, offload, or optimizer = sgd",
      Code::resource_exhausted,
      "a training step needs at least {} bytes ({:.2f} GB){}, option memory is {} ({:.2f} GB)",
      least, gigabytes(least), spec.offloads() ? " with offload" : "", spec.memory,
      gigabytes(spec.memory));
}

} // namespace dllm::train

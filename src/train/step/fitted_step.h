#pragma once
// Compiles a program of a trainer so that it fits into the memory that the trainer may use. Private
// to src/train.

#include "base/task.h"
#include "graph/engine.h"
#include "tensor/batch.h"
#include "train/step/programs.h"

#include <cstdint>
#include <memory>

namespace dllm::train {

struct FittedStep {
  StepGraph built;
  std::shared_ptr<graph::Program> program;
  int64_t recompute = 0; // ProgramSpec::recompute of the graph
  // Most bytes of the step on the engine. With spec.memory they include the trainer's arrays that
  // the program does not read, and of an offloaded update the window of slices alone.
  int64_t peak_bytes = 0;
};

// Builds a graph and compiles it for the model's engine. With spec.memory the graph is the one that
// recomputes the fewest values and fits. Fails with resource_exhausted when no graph fits, and
// names the least memory that one needs. Fails with unimplemented on an engine that does not plan
// its memory. The task is checked before each plan; there may be 25 plans.
FittedStep fitted_step(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
                       const Task* task = nullptr);

} // namespace dllm::train

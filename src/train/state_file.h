#pragma once
// The arrays of a trainer in a checkpoint: one logical tensor per Hugging Face name and array, so that any physical
// layout can read them. Private to src/train.

#include "train/step_runner.h"

#include <string>
#include <vector>

namespace dllm::train {

// One logical tensor of one array: "first.model.norm.weight".
struct StateTensor {
  std::string name;
  size_t entry = 0;  // index into ProgramSpec::state
  size_t piece = 0;
  int64_t layer = 0;
  Shape shape;
};

// Everything there is to save: arrays of the optimizer, averages where they are kept, sums with `with_sums`.
std::vector<StateTensor> state_tensors(const ProgramSpec& spec, bool with_sums);

// Writes state/rank_000.safetensors and the text of layout.json (global shapes; which slice of each a rank holds).
void write_state(const StepRunner& runner, const std::string& path, Task* task);
std::string layout_text(const StepRunner& runner);

// The arrays of a state file in the order of ProgramSpec::state, in physical layout; sums are null without `with_sums`.
// Fails with failed_precondition naming a tensor that is missing or has another shape.
std::vector<graph::BufferRef> read_state(const StepRunner& runner, const std::string& path, bool with_sums,
                                         const Task* task);

}  // namespace dllm::train

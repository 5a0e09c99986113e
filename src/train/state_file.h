#pragma once
// The arrays of a trainer in a checkpoint: one logical tensor for each Hugging Face name and array, so that any physical
// layout can read them. Private to src/train.

#include "graph/engine.h"
#include "model/save.h"
#include "tensor/copy_pool.h"
#include "train/programs.h"
#include "train/step_runner.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::train {

// One logical tensor of one array: "first.model.norm.weight".
struct StateTensor {
  std::string name;
  size_t entry = 0; // index into ProgramSpec::state
  size_t piece = 0;
  int64_t layer = 0;
  Shape shape;
  int64_t writer = 0; // the process that writes it
};

// Everything there is to save: arrays of the optimizer, averages where they are kept, sums with `with_sums`.
std::vector<StateTensor> state_tensors(const ProgramSpec& spec, bool with_sums);

// The arrays at one moment. copied: in storage of their own, so that training may go on; keep_shared: those of the
// trainer, until it takes its next step.
struct StateSnapshot {
  std::vector<StateTensor> tensors;
  std::vector<StateEntry> entries;         // as ProgramSpec::state
  std::vector<graph::BufferRef> buffers;   // by entry: keep_shared
  std::vector<std::vector<Tensor>> copies; // by entry: copied; of several processes by layer
  int64_t process = 0, writers = 1;
};
StateSnapshot snapshot_state(const StepRunner& runner, model::SnapshotMode mode,
                             model::WriterShares& shares, const Task* task,
                             CopyPool* pool = nullptr);
// The file of a writer in a checkpoint: "state/rank_003.safetensors".
std::string state_file(int64_t writer);
// Writes the arrays of this process. Uses the snapshot up: the arrays of a name are given back when they are written.
void write_state(StateSnapshot& snapshot, const std::string& path, Task* task);
// layout.json: global shapes; which file has which array.
std::string layout_text(const StateSnapshot& snapshot);

// The arrays of the state files of a checkpoint in the order of ProgramSpec::state, in physical layout; sums are null without
// `with_sums`. Fails with failed_precondition naming a tensor that is missing or has another shape.
std::vector<graph::BufferRef> read_state(const StepRunner& runner, const std::string& checkpoint,
                                         bool with_sums, const Task* task);

} // namespace dllm::train

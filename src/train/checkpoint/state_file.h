#pragma once
// Writes and reads the arrays of a trainer in a checkpoint. There is one logical tensor for each
// Hugging Face name and array, so any physical layout can read them. Private to src/train.

#include "graph/engine.h"
#include "model/files/save.h"
#include "noise/objective.h"
#include "tensor/copy_pool.h"
#include "train/step/program_spec.h"
#include "train/trainer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::train {

// One logical tensor of one array, such as "first.model.norm.weight".
struct StateTensor {
  std::string name;
  size_t entry = 0; // index into ProgramSpec::state
  size_t piece = 0;
  int64_t layer = 0;
  Shape shape;
  int64_t writer = 0; // the process that writes it
};

// Returns the tensors to save: the optimizer's arrays, the averages if there are any, and with
// `with_sums` the sums.
std::vector<StateTensor> state_tensors(const ProgramSpec& spec, bool with_sums);

// The arrays at one moment. copied: they have their own storage, and training may continue.
// keep_shared: they are the trainer's arrays, valid until its next step.
struct StateSnapshot {
  std::vector<StateTensor> tensors;
  std::vector<StateEntry> entries;       // in the order of ProgramSpec::state
  std::vector<graph::BufferRef> buffers; // by entry: keep_shared
  // By entry, for copied; by layer with several processes.
  std::vector<std::vector<Tensor>> copies;
  int64_t process = 0, writers = 1;
};
StateSnapshot snapshot_state(const Trainer& trainer, model::SnapshotMode mode,
                             model::WriterShares& shares, const Task* task,
                             CopyPool* pool = nullptr);
// Writes the arrays of this process. Consumes the snapshot: the arrays of a name are freed after
// they are written.
void write_state(StateSnapshot& snapshot, const std::string& path, Task* task);
// Returns the text of layout.json: global shapes, and the file of each array.
std::string layout_text(const StateSnapshot& snapshot);

// Writes the arrays of an objective to "state/objective.safetensors" of a checkpoint. Writes no
// file for an objective without arrays.
void write_objective_state(const noise::StateArrays& state, const std::string& checkpoint);
// Reads them. Fails with failed_precondition, naming the array, when one that `objective` keeps is
// missing or has another shape.
noise::StateArrays read_objective_state(const noise::Objective& objective,
                                        const std::string& checkpoint);

// Reads the arrays of a checkpoint's state files, in the order of ProgramSpec::state and in
// physical layout. Sums are null without `with_sums`. Fails with failed_precondition, naming the
// tensor, when one is missing or has another shape.
std::vector<graph::BufferRef> read_state(const Trainer& trainer, const std::string& checkpoint,
                                         bool with_sums, const Task* task);

} // namespace dllm::train

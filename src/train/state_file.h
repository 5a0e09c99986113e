#pragma once
// The optimizer's arrays in a checkpoint: one logical tensor per Hugging Face name and kind, so
// that any physical layout can read them. Private to src/train.

#include "train/state.h"

#include <functional>

namespace dllm::train {

// One logical tensor of one kind of state: "first.model.norm.weight".
struct StateTensor {
  std::string name;
  size_t slot = 0;
  graph::BufferRef Slot::*kind = nullptr;
  size_t piece = 0;
  int64_t layer = 0;
  Shape shape;
};

// Everything there is to save: first and second, ema and sums where they are kept.
std::vector<StateTensor> state_tensors(const Trainer::State& state, bool with_sums);

// Writes state/rank_000.safetensors and the text of layout.json (global shapes; which slice of each
// a rank holds).
void write_state(const Trainer::State& state, const std::string& path, Task* task);
std::string layout_text(const Trainer::State& state);

// The arrays of all slots as read from a state file, in physical layout. Fails with
// failed_precondition naming a tensor that is missing or has another shape.
std::vector<Slot> read_state(const Trainer::State& state, const std::string& path, bool with_sums,
                             const Task* task);

} // namespace dllm::train

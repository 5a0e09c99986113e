#pragma once
// Updates parameters slice by slice, where a scratch store holds the optimizer's arrays. Private to
// src/train.

#include "graph/engine.h"
#include "model/params/param_store.h"
#include "train/offload/offloaded_buffer.h"
#include "train/offload/slices.h"
#include "train/step/programs.h"
#include "train/step/train_program.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dllm::train {

// A step computes all gradients first, because their norm decides the update. They stay in the
// engine. Then each slice of the arrays is read, updated with its slice of the parameter, and
// written back, while the disk already reads the slices after it.
class OffloadedUpdate {
public:
  // Compiles the programs of all slices. The spec outlives this object.
  explicit OffloadedUpdate(const ProgramSpec& spec);

  // Returns the most bytes of one rank for a slice: as read, as written, and the temporaries of its
  // program. Any thread may call it.
  int64_t window_bytes() const { return window_; }
  // Returns the bytes of one rank on the engine during an update: parameters, gradients and window.
  int64_t update_bytes() const;

  // Arrays are those of TrainerArrays, in the order of ProgramSpec::state.
  using Arrays = std::vector<graph::BufferRef>;

  // Returns the arrays that a program writes the gradients to: those of use sum.
  Arrays& gradients();
  // Frees them after their use. Several ranks keep them, because a program of theirs writes into
  // arrays that exist.
  void release_gradients();
  void drop_gradients() { gradients_.clear(); } // after a failed program
  // Lets the disk begin to read the first slices.
  void announce_first(const Arrays& arrays);
  // Adds the gradients to the sums in the store, or replaces these by 0 + gradients. A failure has
  // lost the sums (StateLost).
  void add_to_sums(const Arrays& arrays, bool is_first);
  // Takes the sums out of the store as gradients.
  void load_sums(const Arrays& arrays);
  // Updates every parameter and its arrays. `numbers` are of the program that decided the update;
  // `scalars` were its input. A failure before the first change changes nothing. A later failure
  // has lost parameters and arrays (StateLost).
  void update(model::ParamStore& params, const Arrays& arrays, const StepNumbers& numbers,
              std::span<const float> scalars);

private:
  struct SliceProgram {
    std::shared_ptr<graph::Program> program;
    std::vector<size_t> entries; // SliceGraph::entries
  };
  struct Turn;

  using SizeOf = std::pair<size_t, std::vector<int64_t>>; // of a slice: its parameter and size

  const SliceProgram& program_of(const ParameterSlice& slice) const;
  int64_t bytes_of(const ParameterSlice& slice) const;
  void run_slice(const ParameterSlice& slice, Turn& turn);
  void announce(size_t slice, const Arrays& arrays) const;
  Tensor& window(size_t index, const Shape& shape);

  const ProgramSpec& spec_;
  Arrays gradients_;                 // by entry; empty: none
  std::vector<ParameterSlice> plan_; // of every update
  std::vector<size_t> gradient_of_;  // by trained parameter: its entry of use sum
  std::map<SizeOf, SliceProgram> programs_;
  int64_t window_ = 0;
  std::vector<Tensor> windows_; // host memory for the slices, reused
};

} // namespace dllm::train

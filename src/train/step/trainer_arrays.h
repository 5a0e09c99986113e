#pragma once
// The arrays that a trainer keeps for its parameters. Private to src/train.

#include "graph/engine.h"
#include "train/offload/offloaded_buffer.h"
#include "train/step/program_spec.h"

#include <memory>
#include <utility>
#include <vector>

namespace dllm::train {

// The optimizer's arrays, the moving averages, and the sums of gradients, in the order of
// ProgramSpec::state. A sum is null until something is accumulated. With spec.offloads() the arrays
// are in scratch stores (train/offload/).
class TrainerArrays {
public:
  // REQUIRES: the spec outlives the arrays.
  explicit TrainerArrays(const ProgramSpec& spec) : spec_(spec) {}
  // Makes all arrays but the sums. A failure leaves none.
  void allocate();
  void allocate_sums();
  void clear_sums();
  void replace(std::vector<graph::BufferRef> arrays) { arrays_ = std::move(arrays); }
  // Makes arrays without numbers for the spec, also for the sums when `with_sums`. REQUIRES: the
  // spec offloads them.
  static std::vector<std::shared_ptr<OffloadedBuffer>> offloaded(const ProgramSpec& spec,
                                                                 bool with_sums);

  // Not while a step is started: a step replaces arrays while it has its turn in the ParamStore.
  std::vector<graph::BufferRef>& all() { return arrays_; }
  const std::vector<graph::BufferRef>& all() const { return arrays_; }
  // Returns the moving averages of trained parameters by physical index, all of one step. Null for
  // other parameters. At any time.
  std::vector<graph::BufferRef> averages() const;

private:
  graph::BufferRef zeros(const StateEntry& entry) const;
  void allocate_offloaded();
  const ProgramSpec& spec_;
  std::vector<graph::BufferRef> arrays_;
  std::vector<graph::BufferRef> kept_sums_; // offloaded sums that wait for the next update
};

} // namespace dllm::train

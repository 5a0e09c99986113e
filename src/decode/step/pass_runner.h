#pragma once
// The pass runner runs the planned passes of slots. Slots run together if their shapes allow it.

#include "base/task.h"
#include "base/threads/parallel.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/pass_program.h"
#include "decode/slot/failures.h"
#include "decode/slot/slot.h"
#include "decode/step/launch_count.h"
#include "model/model.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

class PassRunner {
public:
  PassRunner(const std::shared_ptr<model::Model>& model, DecodeState& state, Failures& failures,
             LaunchCount& launches);

  // Runs one pass for every slot with a window. Slots with equal keys and similar windows share a
  // program. least_rows: as in pass_shape.
  void run(const std::vector<Slot*>& slots, const Weights& weights, const Task* task,
           int64_t least_rows = 0);
  // Repeats the pass of one slot and returns its predictions at `positions`, which it predicted
  // before. banned: the bans of each of them.
  std::vector<Prediction> repeat(Slot& slot, const std::vector<int64_t>& positions,
                                 std::span<const BanRow> banned, const Weights& weights,
                                 const Task* task);

  // Returns the threads of the engine, for work between two passes.
  Workers workers(const Task* task) const { return {pool_.get(), task}; }
  const Rounding& rounding() const { return program_.rounding(); }
  // Returns the number of positions of all passes, padding included.
  int64_t computed() const { return program_.computed(); }

private:
  void run_together(const std::vector<Slot*>& slots, std::span<const PassRow> rows,
                    const Weights& weights, const Task* task, int64_t least_rows);

  DecodeState& state_;
  Failures& failures_;
  LaunchCount& launches_;
  PassProgram program_;
  std::shared_ptr<ThreadPool> pool_; // may be null
  int64_t capacity_ = 0;             // most positions that a pass predicted
};

} // namespace dllm::decode

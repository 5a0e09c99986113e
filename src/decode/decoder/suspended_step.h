#pragma once
// A suspended step is a step that a budget stopped inside a forward pass, between two operations.
// It is resumed later, with the weights and the slots that it began with.

#include "base/task.h"
#include "decode/slot/slot.h"
#include "decode/slot/slot_list.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

namespace dllm::decode {

class SuspendedStep {
public:
  using Clock = SlicedCall::Clock;
  using Work = std::function<std::vector<Change>(const Task*)>;

  // Returns whether a step is suspended. May be called from any thread.
  bool is_suspended() const { return suspended_.load(std::memory_order_relaxed); }
  // Resumes the suspended step, or begins `work`, a step of all active slots. Runs until `until`
  // and returns the changes of the step; nothing if it is suspended.
  std::optional<std::vector<Change>> run(SlotList& slots, const Work& work, Clock::time_point until,
                                         const Task* task);
  // Drops the suspended step. This changes no canvas.
  void drop();
  // Drops the suspended step if the slot takes part in it.
  void drop_with(int64_t slot);

private:
  std::atomic<bool> suspended_{false};
  std::vector<Change> changes_; // changes of the step in call_
  std::set<int64_t> slots_;     // numbers of the slots that take part in it
  SlicedCall call_;             // the last member: its thread uses the members above
};

} // namespace dllm::decode

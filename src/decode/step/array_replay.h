#pragma once
// An array replay takes the steps of policies over arrays. A program takes one step or many. The
// host replays its record through the sessions, so that events, traces and metrics come as with
// tokens.

#include "base/task.h"
#include "decode/array/array_program.h"
#include "decode/slot/slot.h"
#include "decode/step/step_parts.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace dllm::decode {

class ArrayReplay {
public:
  explicit ArrayReplay(const StepParts& parts) : parts_(parts) {}

  // Runs the programs of slots that have no step to replay. Changes no canvas. Without a watcher or
  // a trace the text of the last step alone is read, and the positions stay open until then.
  void launch(const std::vector<Slot*>& slots, int64_t limit, bool watched, const Task* task);
  // Replays one step of every slot.
  std::vector<Change> replay(const std::vector<Slot*>& slots);
  // Drops the steps that are not replayed yet, of all slots or of one.
  void drop() { launched_.clear(); }
  void drop(int64_t slot) { launched_.erase(slot); }

private:
  // The steps of one slot that a program took, and the step to replay next.
  struct Launched {
    std::shared_ptr<const ArrayRecord> record;
    int64_t row = 0, next = 0;
  };
  void launch_alike(const std::vector<Slot*>& slots, int64_t limit, bool watched, const Task* task);
  void launch_together(const std::vector<Slot*>& slots, const Weights& weights, int64_t limit,
                       bool watched, const Task* task);
  Change replay_step(Slot& slot);

  StepParts parts_;
  std::map<int64_t, Launched> launched_; // by number of the slot
};

} // namespace dllm::decode

#pragma once
// A token step runs the passes of slots until each has its predictions, and lets their sessions
// decide tokens.

#include "base/task.h"
#include "decode/pass/pass_program.h"
#include "decode/slot/slot.h"
#include "decode/step/constrained_step.h"
#include "decode/step/step_parts.h"

#include <vector>

namespace dllm::decode {

class TokenStep {
public:
  explicit TokenStep(const StepParts& parts) : parts_(parts), constrained_(parts.passes) {}

  std::vector<Change> take(const std::vector<Slot*>& slots, const Task* task);
  // Runs passes until every slot has its predictions for a step. Returns the weights that were
  // used.
  Weights predict(const std::vector<Slot*>& slots, const Task* task);

private:
  struct Round {
    std::vector<Slot*> passes, later;
    bool fills; // the passes predict nothing
  };
  Round plan(const std::vector<Slot*>& slots, int round, const Task* task);

  StepParts parts_;
  ConstrainedStep constrained_;
};

} // namespace dllm::decode

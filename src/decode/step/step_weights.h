#pragma once
// This class takes the weights of a step. All passes of a step use the same version. K and V of
// another version are dropped before the first pass.

#include "base/task.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/pass_program.h"
#include "decode/slot/slot_list.h"
#include "model/model.h"

#include <cstdint>
#include <memory>

namespace dllm::decode {

class StepWeights {
public:
  // may_change: a step may have other weights than the one before (option on_change).
  StepWeights(std::shared_ptr<model::Model> model, DecodeState& state, SlotList& slots,
              bool may_change);

  // Returns the weights for all passes of a step. Fails with failed_precondition if they changed
  // and may not change.
  Weights take(const Task* task);

private:
  std::shared_ptr<model::Model> model_;
  DecodeState& state_;
  SlotList& slots_;
  bool may_change_;
  int64_t version_; // version of the weights that K and V were computed with
};

} // namespace dllm::decode

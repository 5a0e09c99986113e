#pragma once
// A decoding step takes one step of all active slots. Slots that decode tokens run passes or a
// loop, and slots that decode arrays run their own programs.

#include "base/task.h"
#include "decode/cache/decode_state.h"
#include "decode/slot/failures.h"
#include "decode/slot/slot_list.h"
#include "decode/step/array_replay.h"
#include "decode/step/launch_count.h"
#include "decode/step/loop_replay.h"
#include "decode/step/pass_runner.h"
#include "decode/step/step_weights.h"
#include "decode/step/token_step.h"
#include "decode/trace/published.h"
#include "model/model.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::decode {

class DecodingStep {
public:
  // source, weights_may_change: as in StepWeights. All references outlive the step.
  DecodingStep(const std::shared_ptr<model::Model>& model,
               const std::shared_ptr<model::Model>& source, SlotList& slots, DecodeState& state,
               Failures& failures, bool weights_may_change);
  DecodingStep(const DecodingStep&) = delete;
  DecodingStep& operator=(const DecodingStep&) = delete;

  // Takes a step and returns its changes in the order of the slots. A loop may run up to `limit`
  // steps in one launch. watched: the caller looks at the canvases after every step.
  std::vector<Change> take(const std::vector<Slot*>& active, int64_t limit, bool watched,
                           const Task* task);
  // Runs passes until every slot has its predictions for a step that the host decides.
  void predict(const std::vector<Slot*>& active, const Task* task);
  // Drops what programs recorded and the host has not replayed: the canvases may change otherwise.
  void drop_replays();
  // Drops what is recorded for a slot that is removed.
  void forget(int64_t slot) { arrays_.drop(slot); }

  DecoderTotals totals() const;

private:
  DecodeState& state_;
  LaunchCount launches_;
  StepWeights weights_;
  PassRunner passes_;
  TokenStep tokens_;
  LoopReplay loops_;
  ArrayReplay arrays_;
};

} // namespace dllm::decode

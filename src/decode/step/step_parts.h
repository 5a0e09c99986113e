#pragma once
// These are the parts of a decoder that every kind of step uses. Their owner outlives the steps.

#include "decode/cache/decode_state.h"
#include "decode/slot/failures.h"
#include "decode/slot/slot_list.h"
#include "decode/step/launch_count.h"
#include "decode/step/pass_runner.h"
#include "decode/step/step_weights.h"

namespace dllm::decode {

struct StepParts {
  SlotList& slots;
  DecodeState& state;
  Failures& failures;
  StepWeights& weights;
  PassRunner& passes;
  LaunchCount& launches;
};

} // namespace dllm::decode

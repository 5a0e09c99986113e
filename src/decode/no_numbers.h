#pragma once
// Predictions that are none: the model's numbers are not finite, or every token is banned. A step
// fails then, it decides nothing.

#include "base/task.h"
#include "decode/ask.h"
#include "decode/decode_state.h"
#include "decode/program_cache.h"
#include "graph/engine.h"
#include "model/model.h"
#include "tensor/batch.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::decode {

// A pass that can be run again.
struct PassRun {
  graph::Program& program;
  model::Model& model;
  const Weights& weights;
  const Batch& arrays;
  StateBuffers kept;
  const Task* task;
};

// Fails with failed_precondition for a prediction that is no number, naming its position and the
// first operation of the pass (null: not known) that made NaN or infinity. banned (vocab), empty:
// nothing is.
[[noreturn]] void fail_without_numbers(int64_t position, std::span<const uint8_t> banned,
                                       const PassRun* pass);

} // namespace dllm::decode

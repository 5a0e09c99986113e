#pragma once
// A constrained step writes no token that the constraint of its request refuses. Its pass draws no
// token that the canvas refuses. Tokens that are refused only together are predicted again without
// the refused ones, until the policy writes none. A request without a constraint takes its step as
// it is.
//
// Each of these predictions fits the canvas, but a policy that revises tokens may write them in
// combinations that do not. After a number of tries the predictions are completed: they become one
// assignment of tokens that the canvas allows as a whole. A decided position keeps its token. So
// whatever part of the assignment the policy writes, and whatever it opens, is allowed.

#include "base/task.h"
#include "decode/pass/pass_program.h"
#include "decode/slot/slot.h"
#include "decode/step/pass_runner.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::decode {

class ConstrainedStep {
public:
  explicit ConstrainedStep(PassRunner& passes) : passes_(passes) {}

  // Bans the tokens that the canvas of a slot refuses, in its planned pass.
  void ban_refused(Slot& slot, const Task* task);
  // Checks the predictions of a slot and replaces the refused ones.
  void check_predictions(Slot& slot, const Weights& weights, const Task* task);
  // Returns a step that writes no refused token. Fails with failed_precondition if the policy
  // writes a refused token that was not predicted.
  Trial try_step(Slot& slot, const Weights& weights, const Task* task);
  // Fails with invalid_argument if the constraint refuses one of the tokens that the host chose.
  static void check_tokens(const Slot& slot, std::span<const int64_t> positions,
                           std::span<const int32_t> tokens);

private:
  void predict_again(Slot& slot, const std::vector<int64_t>& positions, const Weights& weights,
                     const Task* task);
  void complete(Slot& slot, const Weights& weights, const Task* task);
  void decide_left(Slot& slot, Trial& trial, const Weights& weights, const Task* task);
  void complete_open(Slot& slot, Request& canvas, const Weights& weights, const Task* task);

  PassRunner& passes_;
};

} // namespace dllm::decode

#pragma once
// A limit of a part of the loss (--stop-above), which ends a run that fails early.

#include "dllm/event.h"

#include <cstdint>
#include <deque>
#include <string>

namespace dllm::cli {

class TrainingLimit {
public:
  // text: NAME=NUMBER; "": there is no limit. Fails with a UsageFailure.
  explicit TrainingLimit(const std::string& text);

  // Adds the values of a step. Fails with a Failure when the steps have no part of this name.
  void add(const dllm_event* step);
  // Returns true when the mean of the last 10 steps is above the limit.
  bool is_exceeded() const;
  // Returns "repetition of the last 10 steps is 0.42, above 0.3".
  std::string text() const;

private:
  double mean() const;

  std::string name_; // "": there is no limit
  double limit_ = 0;
  std::deque<double> values_;
};

} // namespace dllm::cli

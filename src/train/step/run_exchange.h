#pragma once
// The values that a run and the steps of its trainer exchange. Private to src/train.

#include "train/step/programs.h"

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace dllm::train {

// Control words are requests of this process for the next step. Each step sums the requests of all
// processes. All processes act on the sums of the last step that was read, so they act after the
// same step.
class RunExchange {
public:
  void request(Control what, int32_t value) { own_[what] = value; }
  int32_t requested_here(Control what) const { return own_[what]; }
  int32_t requested(Control what) const { return all_[what]; }
  void clear_requests() { own_.assign(kControlCount, 0); }
  void clear_requested() { all_.assign(kControlCount, 0); }

  const std::vector<int32_t>& requests() const { return own_; }
  void receive(std::vector<int32_t> sums) { all_ = std::move(sums); }

  // Adds seconds that the host waited for a batch of the next step.
  void add_input_wait(double seconds) { input_wait_ += seconds; }
  double take_input_wait() { return std::exchange(input_wait_, 0); }

  double seconds = 0; // of all runs of the trainer, and of the run of a restored checkpoint
  double clock = 0;   // used share of the minutes or tokens of the run; the schedule follows it
  std::function<void()> on_read; // called after the metrics of a step were set; may be empty

private:
  std::vector<int32_t> own_ = std::vector<int32_t>(kControlCount);
  std::vector<int32_t> all_ = std::vector<int32_t>(kControlCount);
  double input_wait_ = 0;
};

} // namespace dllm::train

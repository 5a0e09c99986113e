#pragma once
// The metrics of a trainer by name. Private to src/train.

#include "base/log.h"

#include <map>
#include <mutex>
#include <string>

namespace dllm::train {

// Any thread may call it.
class Metrics {
public:
  Metrics(); // sets each name of step_metrics() to 0
  // Sets these values at once. Other values stay.
  void set(const std::map<std::string, double>& values);
  // Sets the numbers of an evaluation, "held_out_loss" and so on. Those that the event lacks go.
  void set_eval(const Event& event);
  std::map<std::string, double> all() const;
  double at(const std::string& key) const; // not_found with the nearest key

private:
  mutable std::mutex mutex_;
  std::map<std::string, double> values_;
};

} // namespace dllm::train

#pragma once
// The figures of a trainer, readable from any thread.

#include <map>
#include <mutex>
#include <string>

namespace dllm::train {

class Metrics {
 public:
  // step loss grad_norm lr tokens tokens_per_second mfu memory compiles skipped checkpoint_stall_seconds, all 0.
  Metrics();
  void set(const std::map<std::string, double>& values);  // at once; others stay
  std::map<std::string, double> all() const;
  double at(const std::string& key) const;  // not_found with the nearest key

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> values_;
};

}  // namespace dllm::train

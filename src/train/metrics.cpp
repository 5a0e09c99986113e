#include "train/metrics.h"

#include "base/error.h"

#include <vector>

namespace dllm::train {

Metrics::Metrics() {
  for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_second", "mfu", "memory", "compiles",
                          "skipped", "checkpoint_stall_seconds"}) {
    values_[key] = 0.0;
  }
}

void Metrics::set(const std::map<std::string, double>& values) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, value] : values) values_[key] = value;
}

std::map<std::string, double> Metrics::all() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

double Metrics::at(const std::string& key) const {
  const std::map<std::string, double> values = all();
  const auto found = values.find(key);
  if (found != values.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  const std::string near = nearest(key, names);
  fail_with_hint(near.empty() ? "" : "did you mean " + near + "?", Code::not_found, "no metric named {}", key);
}

}  // namespace dllm::train

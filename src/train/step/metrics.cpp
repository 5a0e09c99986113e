#include "train/step/metrics.h"

#include "base/named_table.h"
#include "train/step/step_metrics.h"

namespace dllm::train {

Metrics::Metrics() : values_(named_metrics({})) {}

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
  return need_named(values, key, kEntryName, {"metric", "of a trainer"}).second;
}

} // namespace dllm::train

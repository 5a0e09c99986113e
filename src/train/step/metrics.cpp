#include "train/step/metrics.h"

#include "base/named_table.h"
#include "train/sinks/event_metrics.h"
#include "train/step/step_metrics.h"

namespace dllm::train {

Metrics::Metrics() : values_(named_metrics({})) {}

void Metrics::set(const std::map<std::string, double>& values) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, value] : values) values_[key] = value;
}

void Metrics::set_eval(const Event& event) {
  const std::lock_guard lock(mutex_);
  for (const EventMetric& row : event_metrics()) {
    if (row.event != EventKind::eval) continue;
    if (event.find(row.key) == nullptr)
      values_.erase(row.column());
    else
      values_[row.column()] = number_of(event, row.key);
  }
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

#pragma once
// Every file of schedules: a new one is its file in this folder, and its name twice here.

#include "noise/schedule.h"

#include <string>

namespace dllm::noise {

// What schedules share: a name, options, the quirks of `compat`.
class NamedSchedule : public Schedule {
public:
  const std::string& name() const override { return name_; }
  double weight(double t) const override;
  double reverse_mask_prob(double s, double t) const override;
  Json describe() const override;

protected:
  NamedSchedule(std::string name, const Options& options);

  // t' = (1 - eps) t: the noisiest end of the schedule is cut off, so that alpha(1) stays above 0.
  double scaled(double t) const { return (1.0 - eps_) * t; }
  double eps() const { return eps_; }
  // The denominator of a weight or of reverse_mask_prob with the reference's guard, where compat has it.
  double guarded_weight(double denominator) const { return denominator + weight_guard_; }

private:
  std::string name_;
  Options options_;
  double eps_;
  double weight_guard_;  // dllm-jax, schedulers: 1e-6 under compat = dllm-jax | dllm, else 0
  double reverse_guard_; // dllm-jax, schedulers: 1e-6 under compat = dllm-jax only
};

// One schedule: its name, the rows of its schema "schedule:<name>", and a maker that takes options of that schema.
struct ScheduleEntry {
  std::string name;
  std::vector<OptionSpec> options;
  ScheduleRef (*make)(const Options&) = nullptr;
};
template <class T> ScheduleRef new_schedule(const Options& options) {
  return std::make_shared<T>(options);
}
// eps, compat: every schedule has them.
std::vector<OptionSpec> shared_schedule_options(double eps = 0.0);

namespace schedule_files {

std::vector<ScheduleEntry> cosine();
std::vector<ScheduleEntry> kappa();
std::vector<ScheduleEntry> linear();
std::vector<ScheduleEntry> nano();
std::vector<ScheduleEntry> sqrt();

inline constexpr std::vector<ScheduleEntry> (*kTable[])() = {cosine, kappa, linear, nano, sqrt};

} // namespace schedule_files

} // namespace dllm::noise

#pragma once
// One maker per schedule; the table of noise/schedule.cpp calls them. Options are of schema
// "schedule:<name>" or "schedule".

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
  // The denominator of a weight or of reverse_mask_prob with the reference's guard, when asked for.
  double guarded_weight(double denominator) const { return denominator + weight_guard_; }

private:
  std::string name_;
  Options options_;
  double eps_;
  double weight_guard_;  // dllm-jax, schedulers: 1e-6 under compat = dllm-jax | dllm, else 0
  double reverse_guard_; // dllm-jax, schedulers: 1e-6 under compat = dllm-jax only
};

ScheduleRef make_linear(const Options& options);
ScheduleRef make_cosine(const Options& options);
ScheduleRef make_sqrt(const Options& options);
ScheduleRef make_nano_cosine(const Options& options);
ScheduleRef make_nano_linear(const Options& options);
ScheduleRef make_nano_sqrt(const Options& options);
ScheduleRef make_kappa_linear(const Options& options);
ScheduleRef make_kappa_cubic(const Options& options);
ScheduleRef make_kappa_cosine(const Options& options);

// The value of `key` where the schema of `options` has it, else `fallback`: generic options lack a
// schedule's own keys.
double number_or(const Options& options, const std::string& key, double fallback);
int64_t integer_or(const Options& options, const std::string& key, int64_t fallback);

} // namespace dllm::noise

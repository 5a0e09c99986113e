#pragma once
// How much is masked at time t in [0, 1], and how much that weighs in the loss. A schedule never
// changes after it is made: many threads may use one.

#include "base/options.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::noise {

class Schedule {
public:
  virtual ~Schedule() = default;
  virtual const std::string& name() const = 0;
  virtual double alpha(double t) const = 0; // probability that a token is kept: 1 at t = 0, falling
  virtual double dalpha(double t) const = 0; // d alpha / dt
  // Factor of the loss. Default: -dalpha / (1 - alpha), the NELBO's (MDLM, Sahoo et al. 2024).
  virtual double weight(double t) const;
  virtual double mask_prob(double t) const { return 1.0 - alpha(t); }
  // A token masked at t is still masked at s < t with this probability: (1 - alpha(s)) / (1 -
  // alpha(t)).
  virtual double reverse_mask_prob(double s, double t) const;
  // Number of discrete times, 0 when time is continuous. Then only t = i / steps are meaningful.
  virtual int64_t steps() const { return 0; }
  virtual Json describe() const = 0; // {"name", options...}
};
using ScheduleRef = std::shared_ptr<const Schedule>;

// "cosine", "kappa_cosine", ... sorted; without "table", which needs numbers.
std::vector<std::string> schedule_names();
// The schema of one schedule ("schedule:linear"); name "" gives the keys all share ("schedule").
const Schema& schedule_schema(const std::string& name);
// Options of schema "schedule" or "schedule:<name>". Fails with not_found and the nearest name.
ScheduleRef make_schedule(const std::string& name, const Options& options);
ScheduleRef make_schedule(const std::string& name);
// Linear between points; dalpha and weight may be empty: derived from alpha. Fails with
// invalid_argument naming the first bad point.
ScheduleRef table_schedule(std::span<const double> t, std::span<const double> alpha,
                           std::span<const double> dalpha, std::span<const double> weight);

// What a schedule is made from: a new one is a class and a function in schedules.cpp, and the function's name twice here.

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
std::vector<ScheduleEntry> geometric();
std::vector<ScheduleEntry> kappa();
std::vector<ScheduleEntry> linear();
std::vector<ScheduleEntry> nano();
std::vector<ScheduleEntry> sqrt();

inline constexpr std::vector<ScheduleEntry> (*kTable[])() = {cosine, geometric, kappa,
                                                             linear, nano,      sqrt};

} // namespace schedule_files

} // namespace dllm::noise

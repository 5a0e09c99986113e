#pragma once
// A schedule: the share of masked tokens at time t in [0, 1] and its weight in the loss. A schedule
// never changes after it is made, so many threads may use one.

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
  // Returns the probability that a token is clean: 1 at t = 0, then falling.
  virtual double alpha(double t) const = 0;
  virtual double dalpha(double t) const = 0; // d alpha / dt
  // Returns the factor of the loss. Default: -dalpha / (1 - alpha), as in the NELBO (MDLM, Sahoo et
  // al. 2024).
  virtual double weight(double t) const;
  virtual double mask_prob(double t) const { return 1.0 - alpha(t); }
  // Returns the probability that a token masked at t is still masked at s < t: (1 - alpha(s)) / (1
  // - alpha(t)).
  virtual double reverse_mask_prob(double s, double t) const;
  // Returns the number of discrete times, 0 when time is continuous. With discrete times only t = i
  // / steps have a meaning.
  virtual int64_t steps() const { return 0; }
  virtual Json describe() const = 0; // {"name", options...}
};
using ScheduleRef = std::shared_ptr<const Schedule>;

// Returns the sorted names "cosine", "kappa_cosine", ... without "table", which needs numbers.
std::vector<std::string> schedule_names();
// Returns the schema "schedule:<name>". The name "" gives the keys of all schedules ("schedule").
const Schema& schedule_schema(const std::string& name);
// Makes a schedule from options of schema "schedule" or "schedule:<name>". Fails with not_found and
// the nearest name.
ScheduleRef make_schedule(const std::string& name, const Options& options);
ScheduleRef make_schedule(const std::string& name);
// Makes the schedule of a JSON object {"name", options}, as describe() returns it. Fails with
// not_found and invalid_argument, as the functions above.
ScheduleRef schedule_from_json(const Json& described);
// Makes a schedule that is linear between points. An empty dalpha or weight is derived from alpha.
// Fails with invalid_argument and the first bad point.
ScheduleRef table_schedule(std::span<const double> t, std::span<const double> alpha,
                           std::span<const double> dalpha, std::span<const double> weight);

// Base classes and table of schedules. A new schedule is a class and a function in schedules.cpp,
// and the function's name twice here.

// The parts that all schedules share: a name, options, the quirks of `compat`.
class NamedSchedule : public Schedule {
public:
  const std::string& name() const override { return name_; }
  double weight(double t) const override;
  double reverse_mask_prob(double s, double t) const override;
  Json describe() const override;

protected:
  NamedSchedule(std::string name, const Options& options);

  // Returns t' = (1 - eps) t. This leaves out the noisiest end of the schedule, so that alpha(1)
  // stays above 0.
  double scaled(double t) const { return (1.0 - eps_) * t; }
  double eps() const { return eps_; }
  // Returns the denominator of a weight or of reverse_mask_prob, with the reference's guard where
  // compat has it.
  double guarded_weight(double denominator) const { return denominator + weight_guard_; }

private:
  std::string name_;
  Options options_;
  double eps_;
  // dllm-jax, schedulers: 1e-6 under compat = dllm-jax | dllm, else 0.
  double weight_guard_;
  // dllm-jax, schedulers: 1e-6 under compat = dllm-jax, else 0.
  double reverse_guard_;
};

// A row of the table: the name, the rows of its schema "schedule:<name>", and a maker that takes
// options of that schema.
struct ScheduleEntry {
  std::string name;
  std::vector<OptionSpec> options;
  ScheduleRef (*make)(const Options&) = nullptr;
};
template <class T> ScheduleRef new_schedule(const Options& options) {
  return std::make_shared<T>(options);
}
// Returns eps and compat, which every schedule has.
std::vector<OptionSpec> shared_schedule_options(double eps = 0.0);

namespace schedule_files {

std::vector<ScheduleEntry> cosine();
std::vector<ScheduleEntry> geometric();
std::vector<ScheduleEntry> kappa();
std::vector<ScheduleEntry> linear();
std::vector<ScheduleEntry> nano();
std::vector<ScheduleEntry> sqrt();
std::vector<ScheduleEntry> tangent();

inline constexpr std::vector<ScheduleEntry> (*kTable[])() = {cosine, geometric, kappa,  linear,
                                                             nano,   sqrt,      tangent};

} // namespace schedule_files

} // namespace dllm::noise

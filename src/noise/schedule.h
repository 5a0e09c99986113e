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

} // namespace dllm::noise

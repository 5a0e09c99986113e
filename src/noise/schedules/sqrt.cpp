#include "noise/schedules/table.h"

#include <cmath>

namespace dllm::noise {
namespace {

// alpha = 1 - sqrt(t'): the power schedule of BD3-LM with exponent 1/2, weight 1 / (2t)
// (MDLM, Sahoo et al. 2024).
class Sqrt final : public NamedSchedule {
public:
  explicit Sqrt(const Options& options) : NamedSchedule("sqrt", options) {}
  double alpha(double t) const override { return 1.0 - std::sqrt(scaled(t)); }
  double dalpha(double t) const override { return -(1.0 - eps()) / (2.0 * std::sqrt(scaled(t))); }
};

} // namespace

std::vector<ScheduleEntry> schedule_files::sqrt() {
  return {{"sqrt", shared_schedule_options(), new_schedule<Sqrt>}};
}

} // namespace dllm::noise

#include "noise/schedules/table.h"

#include <cmath>
#include <numbers>

namespace dllm::noise {
namespace {

constexpr double kHalfPi = std::numbers::pi / 2;

// alpha = 1 - cos(pi/2 (1 - t')) (Beomi/dllm-jax, schedulers; Duo's cosine).
class Cosine final : public NamedSchedule {
public:
  explicit Cosine(const Options& options) : NamedSchedule("cosine", options) {}
  double alpha(double t) const override { return 1.0 - std::cos(kHalfPi * (1.0 - scaled(t))); }
  double dalpha(double t) const override {
    return -(1.0 - eps()) * kHalfPi * std::sin(kHalfPi * (1.0 - scaled(t)));
  }
};

} // namespace

std::vector<ScheduleEntry> schedule_files::cosine() {
  return {{"cosine", shared_schedule_options(), new_schedule<Cosine>}};
}

} // namespace dllm::noise

#include "noise/schedules/table.h"

namespace dllm::noise {
namespace {

// The log-linear schedule of MDLM (Sahoo et al. 2024): alpha = 1 - t', weight 1/t for every eps.
class Linear final : public NamedSchedule {
public:
  explicit Linear(const Options& options) : NamedSchedule("linear", options) {}
  double alpha(double t) const override { return 1.0 - scaled(t); }
  double dalpha(double) const override { return -(1.0 - eps()); }
};

} // namespace

std::vector<ScheduleEntry> schedule_files::linear() {
  return {{"linear", shared_schedule_options(), new_schedule<Linear>}};
}

} // namespace dllm::noise

#include "noise/schedules/factories.h"

namespace dllm::noise {
namespace {

// MDLM's log-linear schedule: alpha = 1 - t', weight 1/t for every eps (spec-nano-dlm 18).
class Linear final : public NamedSchedule {
public:
  explicit Linear(const Options& options) : NamedSchedule("linear", options) {}
  double alpha(double t) const override { return 1.0 - scaled(t); }
  double dalpha(double) const override { return -(1.0 - eps()); }
};

} // namespace

ScheduleRef make_linear(const Options& options) {
  return std::make_shared<Linear>(options);
}

} // namespace dllm::noise

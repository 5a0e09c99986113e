#include "noise/schedules/table.h"

#include <cmath>
#include <numbers>

namespace dllm::noise {
namespace {

// Edit flows (Havasi et al. 2025) count time the other way: kappa rises from 0 to 1. As a Schedule
// alpha = 1 - kappa, and the weight is that of a rate, kappa' / (1 - kappa).
class Kappa : public NamedSchedule {
public:
  double alpha(double t) const final { return 1.0 - kappa(t); }
  double dalpha(double t) const final { return -kappa_derivative(t); }
  double weight(double t) const final {
    return kappa_derivative(t) / guarded_weight(1.0 - kappa(t));
  }

protected:
  using NamedSchedule::NamedSchedule;
  virtual double kappa(double t) const = 0;
  virtual double kappa_derivative(double t) const = 0;
};

class Cubic final : public Kappa {
public:
  Cubic(std::string name, const Options& options, double a, double b)
      : Kappa(std::move(name), options), a_(a), b_(b) {}

protected:
  double kappa(double t) const override {
    return (((a_ + 1) * t - (a_ + b_ + 1)) * t + (b_ + 1)) * t;
  }
  double kappa_derivative(double t) const override {
    return (3 * (a_ + 1) * t - 2 * (a_ + b_ + 1)) * t + (b_ + 1);
  }

private:
  double a_, b_;
};

class KappaCosine final : public Kappa {
public:
  explicit KappaCosine(const Options& options) : Kappa("kappa_cosine", options) {}

protected:
  double kappa(double t) const override { return 1.0 - std::cos(std::numbers::pi / 2 * t); }
  double kappa_derivative(double t) const override {
    return std::numbers::pi / 2 * std::sin(std::numbers::pi / 2 * t);
  }
};

} // namespace

std::vector<ScheduleEntry> schedule_files::kappa() {
  std::vector<OptionSpec> cubic = shared_schedule_options();
  cubic.push_back(option_f64("a", 1.0, -10.0, 10.0, "First coefficient of the cubic."));
  cubic.push_back(option_f64("b", 1.0, -10.0, 10.0, "Second coefficient of the cubic."));
  // kappa = t is the cubic with a = -1, b = 0.
  const auto make_linear = [](const Options& options) -> ScheduleRef {
    return std::make_shared<Cubic>("kappa_linear", options, -1.0, 0.0);
  };
  const auto make_cubic = [](const Options& options) -> ScheduleRef {
    return std::make_shared<Cubic>("kappa_cubic", options, options.f64("a"), options.f64("b"));
  };
  return {{"kappa_linear", shared_schedule_options(), make_linear},
          {"kappa_cubic", std::move(cubic), make_cubic},
          {"kappa_cosine", shared_schedule_options(), new_schedule<KappaCosine>}};
}

} // namespace dllm::noise

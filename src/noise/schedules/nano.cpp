#include "noise/schedules/table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::noise {
namespace {

// Tables of T + 1 entries, index 0 the clean end, u = index / T (nano-dlm, src/schedules.py). Kept
// probabilities are clamped, so the ends are flat; the loss weight alpha / (1 - alpha) is not the
// NELBO's (nano-dlm, src/training.py).
class NanoSchedule : public NamedSchedule {
public:
  double alpha(double t) const final { return std::clamp(raw(u(t)), low_, high_); }
  double dalpha(double t) const final {
    const double value = raw(u(t));
    return value > low_ && value < high_ ? slope(u(t)) : 0.0;
  }
  double weight(double t) const final { return alpha(t) / std::max(1.0 - alpha(t), 1e-8); }
  int64_t steps() const final { return steps_; }

protected:
  NanoSchedule(std::string name, const Options& options, bool clamp_high)
      : NamedSchedule(std::move(name), options), steps_(options.i64("steps")), low_(eps()),
        high_(clamp_high ? 1.0 - eps() : 1.0) {}
  virtual double raw(double u) const = 0;
  virtual double slope(double u) const = 0;

private:
  double u(double t) const {
    const auto index =
        std::clamp<int64_t>(std::llround(t * static_cast<double>(steps_)), 0, steps_);
    return static_cast<double>(index) / static_cast<double>(steps_);
  }
  int64_t steps_;
  double low_, high_;
};

class NanoCosine final : public NanoSchedule {
public:
  explicit NanoCosine(const Options& options) : NanoSchedule("nano_cosine", options, true) {}

protected:
  static constexpr double kOffset = 0.008; // Nichol & Dhariwal 2021, eq. 17
  static double theta(double u) { return (u + kOffset) / (1.0 + kOffset) * std::numbers::pi / 2; }
  static double start() { return std::cos(theta(0)) * std::cos(theta(0)); }
  double raw(double u) const override { return std::cos(theta(u)) * std::cos(theta(u)) / start(); }
  double slope(double u) const override {
    return -std::numbers::pi / (2 * (1.0 + kOffset)) * std::sin(2 * theta(u)) / start();
  }
};

class NanoLinear final : public NanoSchedule {
public:
  explicit NanoLinear(const Options& options) : NanoSchedule("nano_linear", options, false) {}

protected:
  double raw(double u) const override { return 1.0 - u * (1.0 - eps()); }
  double slope(double) const override { return -(1.0 - eps()); }
};

class NanoSqrt final : public NanoSchedule {
public:
  explicit NanoSqrt(const Options& options) : NanoSchedule("nano_sqrt", options, true) {}

protected:
  double raw(double u) const override { return 1.0 - std::sqrt(u + eps()); }
  double slope(double u) const override { return -1.0 / (2.0 * std::sqrt(u + eps())); }
};

} // namespace

std::vector<ScheduleEntry> schedule_files::nano() {
  std::vector<OptionSpec> options = shared_schedule_options(1e-4);
  options.push_back(option_i64("steps", 1000, 1, 1'000'000, "Number of discrete times."));
  return {{"nano_cosine", options, new_schedule<NanoCosine>},
          {"nano_linear", options, new_schedule<NanoLinear>},
          {"nano_sqrt", options, new_schedule<NanoSqrt>}};
}

} // namespace dllm::noise

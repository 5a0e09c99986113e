// The schedules. Each is a class over NamedSchedule, and a function that returns its entries for
// the table of schedule.h.
#include "noise/schedules/schedule.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::noise {

namespace {

// The log-linear schedule of MDLM (Sahoo et al. 2024): alpha = 1 - t', and the weight is 1/t for
// every eps.
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

namespace {

// SEDD's geometric schedule (Lou et al. 2024): sigma = sigma_min^(1 - t) sigma_max^t, alpha =
// exp(-sigma).
class Geometric final : public NamedSchedule {
public:
  explicit Geometric(const Options& options)
      : NamedSchedule("geometric", options), low_(options.f64("sigma_min")),
        rate_(std::log(options.f64("sigma_max") / low_)) {}
  double alpha(double t) const override { return std::exp(-sigma(t)); }
  double dalpha(double t) const override { return -(1.0 - eps()) * rate_ * sigma(t) * alpha(t); }

private:
  double sigma(double t) const { return low_ * std::exp(rate_ * scaled(t)); }
  double low_, rate_;
};

} // namespace

std::vector<ScheduleEntry> schedule_files::geometric() {
  std::vector<OptionSpec> options = shared_schedule_options();
  options.push_back(option_f64("sigma_min", 1e-4, 1e-9, 1.0, "Noise at time 0."));
  options.push_back(option_f64("sigma_max", 20.0, 1.0, 1e3, "Noise at time 1."));
  return {{"geometric", std::move(options), new_schedule<Geometric>}};
}

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

namespace {

// Edit flows (Havasi et al. 2025) count time in the other direction: kappa rises from 0 to 1. The
// schedule has alpha = 1 - kappa, and its weight is the weight of a rate, kappa' / (1 - kappa).
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

namespace {

// Tables of T + 1 entries; index 0 is the clean end, u = index / T (nano-dlm, src/schedules.py).
// Kept probabilities are clamped, so the ends are flat. The loss weight alpha / (1 - alpha) is not
// the weight of the NELBO (nano-dlm, src/training.py).
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

namespace {

// Noise levels of vectors (LDLM, arXiv 2605.07933): with x = pi/2 t',
//   alpha = 1 / (1 + d^2 tan^2 x) = cos^2 x / (cos^2 x + d^2 sin^2 x).
// dLLM-castlehill has alpha = max(1 - t'^d, 1e-8) under the same name (compat = open-dllm).
class Tangent final : public NamedSchedule {
public:
  explicit Tangent(const Options& options)
      : NamedSchedule("tangent", options), steepness_(options.f64("steepness")),
        is_power_(options.str("compat") == "open-dllm") {}
  double alpha(double t) const override {
    if (is_power_) return std::max(1.0 - std::pow(scaled(t), steepness_), kLeast);
    const double c = std::cos(angle(t));
    return c * c / spread(t);
  }
  double dalpha(double t) const override {
    if (is_power_) {
      const double slope = -steepness_ * std::pow(scaled(t), steepness_ - 1.0) * (1.0 - eps());
      return alpha(t) > kLeast ? slope : 0.0;
    }
    const double s = std::sin(angle(t)), c = std::cos(angle(t)), total = spread(t);
    return -(1.0 - eps()) * std::numbers::pi * steepness_ * steepness_ * s * c / (total * total);
  }
  Json describe() const override {
    Json made = NamedSchedule::describe();
    if (is_power_)
      made["quirks"].push_back("alpha is max(1 - t^steepness, 1e-8) (dLLM-castlehill)");
    return made;
  }

private:
  static constexpr double kLeast = 1e-8;
  double angle(double t) const { return kHalfPi * scaled(t); }
  double spread(double t) const {
    const double s = std::sin(angle(t)), c = std::cos(angle(t));
    return c * c + steepness_ * steepness_ * s * s;
  }
  double steepness_;
  bool is_power_;
};

} // namespace

std::vector<ScheduleEntry> schedule_files::tangent() {
  std::vector<OptionSpec> options = shared_schedule_options();
  options.push_back(option_f64("steepness", 3.0, 1e-3, 1e3,
                               "Factor d of the tangent: the higher, the earlier noise grows."));
  return {{"tangent", std::move(options), new_schedule<Tangent>}};
}

} // namespace dllm::noise

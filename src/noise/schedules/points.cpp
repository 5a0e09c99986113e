#include "base/error.h"
#include "noise/schedule.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

class Table final : public Schedule {
public:
  Table(std::span<const double> t, std::span<const double> alpha, std::span<const double> dalpha,
        std::span<const double> weight)
      : t_(t.begin(), t.end()), alpha_(alpha.begin(), alpha.end()),
        dalpha_(dalpha.begin(), dalpha.end()), weight_(weight.begin(), weight.end()) {}

  const std::string& name() const override { return name_; }
  double alpha(double t) const override { return between(alpha_, t); }
  double dalpha(double t) const override {
    if (!dalpha_.empty()) return between(dalpha_, t);
    const size_t i = segment(t);
    return (alpha_[i + 1] - alpha_[i]) / (t_[i + 1] - t_[i]);
  }
  double weight(double t) const override {
    return weight_.empty() ? Schedule::weight(t) : between(weight_, t);
  }
  Json describe() const override {
    Json made = {{"name", name_}, {"t", t_}, {"alpha", alpha_}};
    if (!dalpha_.empty()) made["dalpha"] = dalpha_;
    if (!weight_.empty()) made["weight"] = weight_;
    return made;
  }

private:
  // Index of the segment that holds t; times outside use the first or last one's end.
  size_t segment(double t) const {
    const auto after = std::upper_bound(t_.begin(), t_.end(), t);
    const auto index = static_cast<size_t>(std::max<ptrdiff_t>(after - t_.begin() - 1, 0));
    return std::min(index, t_.size() - 2);
  }
  double between(const std::vector<double>& values, double t) const {
    const size_t i = segment(t);
    const double part = std::clamp((t - t_[i]) / (t_[i + 1] - t_[i]), 0.0, 1.0);
    return values[i] + part * (values[i + 1] - values[i]);
  }

  std::string name_ = "table";
  std::vector<double> t_, alpha_, dalpha_, weight_;
};

void check_points(std::span<const double> t, std::span<const double> alpha) {
  for (size_t i = 0; i < t.size(); ++i) {
    if (!(t[i] >= 0 && t[i] <= 1))
      fail(Code::invalid_argument, "schedule point {}: t {} is not in 0 to 1", i, t[i]);
    if (!(alpha[i] >= 0 && alpha[i] <= 1)) {
      fail(Code::invalid_argument, "schedule point {}: alpha {} is not in 0 to 1", i, alpha[i]);
    }
    if (i > 0 && !(t[i] > t[i - 1])) {
      fail(Code::invalid_argument, "schedule point {}: t {} does not grow after {}", i, t[i],
           t[i - 1]);
    }
    if (i > 0 && !(alpha[i] <= alpha[i - 1])) {
      fail(Code::invalid_argument, "schedule point {}: alpha {} grows after {}", i, alpha[i],
           alpha[i - 1]);
    }
  }
}

void check_column(std::span<const double> values, size_t points, const char* name) {
  if (!values.empty() && values.size() != points) {
    fail(Code::invalid_argument, "schedule column {} has {} values for {} points", name,
         values.size(), points);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      fail(Code::invalid_argument, "schedule point {}: {} {} is not finite", i, name, values[i]);
    }
  }
}

} // namespace

ScheduleRef table_schedule(std::span<const double> t, std::span<const double> alpha,
                           std::span<const double> dalpha, std::span<const double> weight) {
  if (t.size() < 2)
    fail(Code::invalid_argument, "a schedule table needs 2 points or more, not {}", t.size());
  check_column(alpha, t.size(), "alpha");
  if (alpha.empty()) fail(Code::invalid_argument, "a schedule table needs the column alpha");
  check_points(t, alpha);
  check_column(dalpha, t.size(), "dalpha");
  check_column(weight, t.size(), "weight");
  return std::make_shared<Table>(t, alpha, dalpha, weight);
}

} // namespace dllm::noise

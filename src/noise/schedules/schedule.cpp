#include "noise/schedules/schedule.h"

#include "base/error.h"
#include "base/named_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::noise {

double Schedule::weight(double t) const {
  return -dalpha(t) / (1.0 - alpha(t));
}
double Schedule::reverse_mask_prob(double s, double t) const {
  return (1.0 - alpha(s)) / (1.0 - alpha(t));
}

double NamedSchedule::weight(double t) const {
  return -dalpha(t) / guarded_weight(1.0 - alpha(t));
}
double NamedSchedule::reverse_mask_prob(double s, double t) const {
  return (1.0 - alpha(s)) / (1.0 - alpha(t) + reverse_guard_);
}

NamedSchedule::NamedSchedule(std::string name, const Options& options)
    : name_(std::move(name)), options_(options), eps_(options.f64("eps")) {
  constexpr double kGuard = 1e-6;
  const std::string& compat = options.str("compat");
  weight_guard_ = compat == "dllm-jax" || compat == "dllm" ? kGuard : 0.0;
  reverse_guard_ = compat == "dllm-jax" ? kGuard : 0.0;
}

Json NamedSchedule::describe() const {
  Json made = options_.to_json();
  made["name"] = name_;
  Json quirks = Json::array();
  if (weight_guard_ > 0)
    quirks.push_back("weight has 1e-6 in its denominator (dllm-jax, schedulers)");
  if (reverse_guard_ > 0)
    quirks.push_back("reverse_mask_prob has 1e-6 in its denominator (dllm-jax, schedulers)");
  made["quirks"] = quirks;
  return made;
}

std::vector<OptionSpec> shared_schedule_options(double eps) {
  return {
      option_f64("eps", eps, 0.0, 0.5,
                 "Part of the noisiest end that is cut off, so that alpha(1) stays above 0."),
      option_choice("compat", "none", {"none", "dllm-jax", "dllm", "nano", "open-dllm"},
                    "Reproduces the known quirks of a reference."),
  };
}

namespace {

struct KnownSchedule {
  std::string name;
  Schema schema;
  ScheduleRef (*make)(const Options&);
};

// Sorted by name.
const std::vector<KnownSchedule>& known_schedules() {
  static const std::vector<KnownSchedule> all = [] {
    std::vector<KnownSchedule> made;
    for (const auto& file : schedule_files::kTable) {
      for (ScheduleEntry& entry : file())
        made.push_back(
            {entry.name, Schema("schedule:" + entry.name, std::move(entry.options)), entry.make});
    }
    std::ranges::sort(made, {}, &KnownSchedule::name);
    return made;
  }();
  return all;
}

const KnownSchedule& find_schedule(const std::string& name) {
  return need_named(known_schedules(), name, &KnownSchedule::name, {"schedule"});
}

} // namespace

std::vector<std::string> schedule_names() {
  return names_of(known_schedules(), &KnownSchedule::name);
}

const Schema& schedule_schema(const std::string& name) {
  static const Schema shared("schedule", shared_schedule_options());
  return name.empty() ? shared : find_schedule(name).schema;
}

ScheduleRef make_schedule(const std::string& name, const Options& options) {
  const KnownSchedule& entry = find_schedule(name);
  if (&options.schema() == &entry.schema) return entry.make(options);
  Options own(entry.schema);
  own.take_set(options);
  return entry.make(own);
}

ScheduleRef schedule_from_json(const Json& described) {
  if (!described.is_object() || !described.contains("name") || !described.at("name").is_string())
    fail(Code::invalid_argument, "a schedule is an object with a name, found {}", described.dump());
  const auto name = described.at("name").get<std::string>();
  Json own = described;
  for (const char* key : {"name", "quirks"}) own.erase(key);
  Options options(schedule_schema(name));
  options.set_json(own);
  return make_schedule(name, options);
}

ScheduleRef make_schedule(const std::string& name) {
  return find_schedule(name).make(Options(find_schedule(name).schema));
}

// --- a schedule of points ---

namespace {

class PointSchedule final : public Schedule {
public:
  PointSchedule(std::span<const double> t, std::span<const double> alpha,
                std::span<const double> dalpha, std::span<const double> weight)
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
  // Returns the index of the segment that holds t. Times outside belong to the first or the last
  // segment.
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
  return std::make_shared<PointSchedule>(t, alpha, dalpha, weight);
}

} // namespace dllm::noise

#include "noise/schedule.h"

#include "base/error.h"
#include "noise/schedules/table.h"

#include <nlohmann/json.hpp>

#include <algorithm>

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
  if (weight_guard_ > 0) quirks.push_back("weight has 1e-6 in its denominator (dllm-jax, schedulers)");
  if (reverse_guard_ > 0)
    quirks.push_back("reverse_mask_prob has 1e-6 in its denominator (dllm-jax, schedulers)");
  made["quirks"] = quirks;
  return made;
}

std::vector<OptionSpec> shared_schedule_options(double eps) {
  return {
      option_f64("eps", eps, 0.0, 0.5, "Part of the noisiest end that is cut off, so that alpha(1) stays above 0."),
      option_choice("compat", "none", {"none", "dllm-jax", "dllm", "nano"},
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
        made.push_back({entry.name, Schema("schedule:" + entry.name, std::move(entry.options)), entry.make});
    }
    std::ranges::sort(made, {}, &KnownSchedule::name);
    return made;
  }();
  return all;
}

const KnownSchedule& find_schedule(const std::string& name) {
  const auto found = std::ranges::find(known_schedules(), name, &KnownSchedule::name);
  if (found != known_schedules().end()) return *found;
  const std::string near = nearest(name, schedule_names());
  fail_with_hint(near.empty() ? "the schedules are linear, cosine, sqrt, ..." : "did you mean " + near + "?",
                 Code::not_found, "no schedule named {}", name);
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const KnownSchedule& entry : known_schedules()) names.push_back(entry.name);
  return names;
}

const Schema& schedule_schema(const std::string& name) {
  static const Schema shared("schedule", shared_schedule_options());
  return name.empty() ? shared : find_schedule(name).schema;
}

ScheduleRef make_schedule(const std::string& name, const Options& options) {
  const KnownSchedule& entry = find_schedule(name);
  if (&options.schema() == &entry.schema) return entry.make(options);
  // Generic options: what the caller set, over the defaults of this schedule.
  Options own(entry.schema);
  for (const char* key : {"eps", "compat"}) {
    if (!options.is_set(key)) continue;
    if (std::string_view(key) == "eps")
      own.set_f64(key, options.f64(key));
    else
      own.set_str(key, options.str(key));
  }
  return entry.make(own);
}

ScheduleRef make_schedule(const std::string& name) {
  return find_schedule(name).make(Options(find_schedule(name).schema));
}

} // namespace dllm::noise

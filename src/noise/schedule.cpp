#include "noise/schedule.h"

#include "base/error.h"
#include "noise/schedules/factories.h"

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

namespace {

bool has_key(const Options& options, const std::string& key) {
  const auto& specs = options.schema().specs();
  return std::any_of(specs.begin(), specs.end(),
                     [&](const OptionSpec& spec) { return spec.key == key; });
}

std::vector<OptionSpec> shared_keys(double eps) {
  return {
      option_f64("eps", eps, 0.0, 0.5,
                 "Part of the noisiest end that is cut off, so that alpha(1) stays above 0."),
      option_choice("compat", "none", {"none", "dllm-jax", "dllm", "nano"},
                    "Reproduces the known quirks of a reference."),
  };
}

std::vector<OptionSpec> nano_keys() {
  std::vector<OptionSpec> keys = shared_keys(1e-4);
  keys.push_back(option_i64("steps", 1000, 1, 1'000'000, "Number of discrete times."));
  return keys;
}

std::vector<OptionSpec> cubic_keys() {
  std::vector<OptionSpec> keys = shared_keys(0.0);
  keys.push_back(option_f64("a", 1.0, -10.0, 10.0, "First coefficient of the cubic."));
  keys.push_back(option_f64("b", 1.0, -10.0, 10.0, "Second coefficient of the cubic."));
  return keys;
}

struct Entry {
  const char* name;
  ScheduleRef (*make)(const Options&);
  Schema schema;
};

const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
      {"cosine", make_cosine, {"schedule:cosine", shared_keys(0.0)}},
      {"kappa_cosine", make_kappa_cosine, {"schedule:kappa_cosine", shared_keys(0.0)}},
      {"kappa_cubic", make_kappa_cubic, {"schedule:kappa_cubic", cubic_keys()}},
      {"kappa_linear", make_kappa_linear, {"schedule:kappa_linear", shared_keys(0.0)}},
      {"linear", make_linear, {"schedule:linear", shared_keys(0.0)}},
      {"nano_cosine", make_nano_cosine, {"schedule:nano_cosine", nano_keys()}},
      {"nano_linear", make_nano_linear, {"schedule:nano_linear", nano_keys()}},
      {"nano_sqrt", make_nano_sqrt, {"schedule:nano_sqrt", nano_keys()}},
      {"sqrt", make_sqrt, {"schedule:sqrt", shared_keys(0.0)}},
  };
  return entries;
}

const Entry& find_entry(const std::string& name) {
  for (const Entry& entry : table()) {
    if (name == entry.name) return entry;
  }
  const std::string near = nearest(name, schedule_names());
  fail_with_hint(near.empty() ? "the schedules are linear, cosine, sqrt, ..."
                              : "did you mean " + near + "?",
                 Code::not_found, "no schedule named {}", name);
}

} // namespace

double number_or(const Options& options, const std::string& key, double fallback) {
  return has_key(options, key) ? options.f64(key) : fallback;
}
int64_t integer_or(const Options& options, const std::string& key, int64_t fallback) {
  return has_key(options, key) ? options.i64(key) : fallback;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Entry& entry : table()) names.emplace_back(entry.name);
  return names;
}

const Schema& schedule_schema(const std::string& name) {
  static const Schema shared("schedule", shared_keys(0.0));
  return name.empty() ? shared : find_entry(name).schema;
}

ScheduleRef make_schedule(const std::string& name, const Options& options) {
  const Entry& entry = find_entry(name);
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
  return find_entry(name).make(Options(find_entry(name).schema));
}

} // namespace dllm::noise

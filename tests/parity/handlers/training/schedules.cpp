// jax/schedules: arrays <class>.<quantity> over t, or over pairs.s, pairs.t. nano/schedules: tables
// of T + 1 entries.

#include "base/error.h"
#include "handlers.h"
#include "handlers/models/reference_names.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace dllm::parity {
namespace {

Tensor over(const Tensor& t, const std::function<double(double)>& quantity) {
  Tensor made(DType::f64, t.shape());
  for (size_t i = 0; i < made.mutable_as<double>().size(); ++i)
    made.mutable_as<double>()[i] = quantity(t.as<float>()[i]);
  return made;
}

// Element by element. The references compute in float32: a difference 1 - x that is small has lost
// digits, which costs a few units of 2^-24 / (1 - x) relative. differences: the small differences
// behind each element. Near the singular ends the limits of cases.json hold
// (rtol_near_singularity): 2e-3 below 1e-3, 0.2 below 1e-5.
void close_cancelled(Case& c, Tolerance tolerance, const Tensor& got, const Tensor& want,
                     const std::string& what, const std::vector<Tensor>& differences) {
  constexpr double kUnits = 4.0 / (1 << 24);
  if (got.shape() != want.shape()) return c.close(tolerance, got, want, what);
  for (size_t i = 0; i < got.as<double>().size(); ++i) {
    double relative = tolerance.relative, smallest = 1;
    for (const Tensor& difference : differences) {
      const double value = std::max(difference.as<double>()[i], 1e-12);
      relative += kUnits / value;
      smallest = std::min(smallest, value);
    }
    if (smallest < 1e-3) relative = smallest < 1e-5 ? 0.2 : std::max(relative, 2e-3);
    c.close({tolerance.absolute, relative}, got.as<double>()[i],
            static_cast<double>(want.as<float>()[i]), what);
  }
}

void run_jax(Case& c, const Json& entry) {
  const std::string name = entry.at("name").get<std::string>();
  const Json parameters = entry.value("parameters", Json::object());
  const noise::ScheduleRef schedule =
      reference_schedule(name.substr(0, name.find('_')), parameters, "dllm-jax");
  const Tolerance tolerance = c.topic().tolerance(entry);
  const Tensor& t = c.topic().array("t");
  const bool kappa = name.find("Kappa") != std::string::npos;
  const Tensor denominator =
      over(t, [&](double x) { return kappa ? schedule->alpha(x) : 1 - schedule->alpha(x); });
  for (const Json& listed : entry.at("arrays")) {
    const std::string text = listed.get<std::string>();
    const std::string array = text.substr(0, text.find(' '));
    if (array == "alpha")
      c.close(tolerance, over(t, [&](double x) { return schedule->alpha(x); }), c.array(array),
              array);
    else if (array == "alpha_derivative")
      c.close(tolerance, over(t, [&](double x) { return schedule->dalpha(x); }), c.array(array),
              array);
    else if (array == "mask_prob")
      c.close(tolerance, over(t, [&](double x) { return schedule->mask_prob(x); }), c.array(array),
              array);
    else if (array == "kappa")
      c.close(tolerance, over(t, [&](double x) { return 1 - schedule->alpha(x); }), c.array(array),
              array);
    else if (array == "kappa_derivative")
      c.close(tolerance, over(t, [&](double x) { return -schedule->dalpha(x); }), c.array(array),
              array);
    else if (array == "weight")
      close_cancelled(c, tolerance, over(t, [&](double x) { return schedule->weight(x); }),
                      c.array(array), array, {denominator});
    else if (array.starts_with("weight_clipped")) {
      const double limit = std::stod(array.substr(std::string("weight_clipped").size()));
      close_cancelled(c, tolerance,
                      over(t, [&](double x) { return std::min(schedule->weight(x), limit); }),
                      c.array(array), array, {denominator});
    } else if (array == "reverse_mask_prob") {
      const Tensor& s = c.topic().array("pairs.s");
      const Tensor& later = c.topic().array("pairs.t");
      Tensor got(DType::f64, s.shape());
      for (size_t i = 0; i < got.mutable_as<double>().size(); ++i) {
        got.mutable_as<double>()[i] =
            schedule->reverse_mask_prob(s.as<float>()[i], later.as<float>()[i]);
      }
      const auto masked = [&](double x) { return 1 - schedule->alpha(x); };
      close_cancelled(c, tolerance, got, c.array(array), array,
                      {over(s, masked), over(later, masked)});
    } else {
      c.skip("quantity " + array + " is not supported yet");
    }
  }
}

void run_nano_schedule(Case& c, const Json& entry) {
  const noise::ScheduleRef schedule = nano_schedule(entry);
  const Tolerance tolerance = c.topic().tolerance(entry);
  const int64_t steps = schedule->steps();
  const auto table = [&](const std::function<double(int64_t)>& quantity) {
    Tensor made(DType::f64, {steps + 1});
    for (int64_t i = 0; i <= steps; ++i)
      made.mutable_as<double>()[static_cast<size_t>(i)] = quantity(i);
    return made;
  };
  const auto bar = [&](int64_t i) {
    return schedule->alpha(static_cast<double>(i) / static_cast<double>(steps));
  };
  c.close(tolerance, table(bar), c.array("alpha_bar"), "alpha_bar");
  c.close(tolerance, table([&](int64_t i) { return 1 - bar(i); }), c.array("mask_rate"),
          "mask_rate");
  // Ratio of neighbours, the one before index 0 being 1 (nano-dlm, src/schedules.py).
  const Tensor ratio =
      table([&](int64_t i) { return i == 0 ? bar(0) : bar(i) / std::max(bar(i - 1), 1e-8); });
  const Tensor before = table([&](int64_t i) { return bar(std::max<int64_t>(i - 1, 0)); });
  close_cancelled(c, tolerance, ratio, c.array("alpha"), "alpha", {table(bar), before});
  const Tensor weight = table([&](int64_t i) {
    return schedule->weight(static_cast<double>(i) / static_cast<double>(steps));
  });
  const Tensor denominator = table([&](int64_t i) { return 1 - bar(i); });
  close_cancelled(c, tolerance, weight, c.array("loss_weight"), "loss_weight",
                  {denominator, table(bar)});
}

} // namespace

void run_schedules(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    const bool nano = entry.contains("kind") && entry.contains("T");
    topic.run(entry, [&](Case& c) { nano ? run_nano_schedule(c, entry) : run_jax(c, entry); });
  }
}

} // namespace dllm::parity

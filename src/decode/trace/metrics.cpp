#include "decode/trace/metrics.h"

#include "base/named_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::decode {
namespace {

using CopyRef = const RequestCopy&;
using MomentRef = const DecoderMoment&;

constexpr RequestMetric kRequestMetrics[] = {
    {"done", "0 or 1", [](CopyRef r) { return int64_t{r.active() ? 0 : 1}; }, true},
    {"finish", "0 open, 1 decided, 2 stopped, 3 failed",
     [](CopyRef r) { return static_cast<int64_t>(r.finish); }, true},
    {"steps", "passes", [](CopyRef r) { return r.steps; }},
    {"nfe", "passes", [](CopyRef r) { return r.nfe; }},
    {"commits", "passes", [](CopyRef r) { return r.commits; }},
    {"prefills", "passes", [](CopyRef r) { return r.prefills; }},
    {"launches", "runs of programs", [](CopyRef r) { return r.launches; }},
    {"round_trips", "runs of programs", [](CopyRef r) { return r.round_trips; }},
    {"decided", "positions", [](CopyRef r) { return r.decided; }},
    {"open", "positions", [](CopyRef r) { return r.open; }},
};

constexpr TotalMetric kTotalMetrics[] = {
    {"slots", "requests", [](MomentRef m) { return static_cast<int64_t>(m.now.slots.size()); }},
    {"launches", "runs of programs", [](MomentRef m) { return m.now.totals.launches; }},
    {"round_trips", "runs of programs", [](MomentRef m) { return m.now.totals.round_trips; }},
    {"cache_bytes", "bytes", [](MomentRef m) { return m.now.totals.cache_bytes; }},
    {"reused", "positions", [](MomentRef m) { return m.now.totals.reused; }},
    {"computed", "positions", [](MomentRef m) { return m.now.totals.computed; }},
    {"suspended", "0 or 1", [](MomentRef m) { return int64_t{m.suspended}; }},
};

int64_t over_all(const RequestMetric& metric, const Published::Slots& slots) {
  int64_t total = metric.all ? 1 : 0;
  for (const auto& [number, request] : slots) {
    const int64_t value = metric.value(*request);
    total = metric.all ? std::min<int64_t>(total, value > 0 ? 1 : 0) : total + value;
  }
  return total;
}

[[noreturn]] void fail_metric(std::string_view name, bool with_totals) {
  std::vector<std::string> known = names_of(kRequestMetrics, &RequestMetric::name);
  for (const TotalMetric& total : kTotalMetrics) {
    if (with_totals && find_named(kRequestMetrics, total.name, &RequestMetric::name) == nullptr)
      known.emplace_back(total.name);
  }
  fail_unnamed({"metric", with_totals ? "of a decoder" : "of a slot"}, name, known);
}

} // namespace

std::span<const RequestMetric> request_metrics() {
  return kRequestMetrics;
}

std::span<const TotalMetric> total_metrics() {
  return kTotalMetrics;
}

int64_t metric_of(const RequestCopy& request, std::string_view name) {
  const RequestMetric* found = find_named(kRequestMetrics, name, &RequestMetric::name);
  if (found == nullptr) fail_metric(name, false);
  return found->value(request);
}

int64_t metric_of(const DecoderMoment& moment, std::string_view name) {
  if (const TotalMetric* total = find_named(kTotalMetrics, name, &TotalMetric::name))
    return total->value(moment);
  const RequestMetric* found = find_named(kRequestMetrics, name, &RequestMetric::name);
  if (found == nullptr) fail_metric(name, true);
  return over_all(*found, moment.now.slots);
}

Json describe_metrics(const DecoderMoment& moment) {
  Json numbers = Json::object(), units = Json::object();
  const auto add = [&](const auto& row) {
    numbers[row.name] = metric_of(moment, row.name);
    units[row.name] = row.unit;
  };
  std::ranges::for_each(kRequestMetrics, add);
  std::ranges::for_each(kTotalMetrics, add);
  return {{"metrics", std::move(numbers)}, {"units", std::move(units)}};
}

} // namespace dllm::decode

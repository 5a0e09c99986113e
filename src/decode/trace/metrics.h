#pragma once
// This header lists the metrics of a decoder and its requests. A metric is a whole number with a
// name and a unit.

#include "decode/trace/published.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace dllm::decode {

// A metric of one request. The value for all requests is the sum. If `all` is set, the value is 1
// when the metric is above 0 in every request, else 0.
struct RequestMetric {
  const char* name;
  const char* unit;
  int64_t (*value)(const RequestCopy& request);
  bool all = false;
};

// The state of a decoder at one moment.
struct DecoderMoment {
  Published::All now;
  bool suspended = false; // a step is suspended (Decoder::step_for)
};

// A metric of the decoder. It replaces the sum of a request metric of the same name.
struct TotalMetric {
  const char* name;
  const char* unit;
  int64_t (*value)(const DecoderMoment& moment);
};

std::span<const RequestMetric> request_metrics();
std::span<const TotalMetric> total_metrics();

// Return the value of the metric `name`. Both fail with not_found when no such metric exists.
int64_t metric_of(const RequestCopy& request, std::string_view name);
int64_t metric_of(const DecoderMoment& moment, std::string_view name);

// Returns {"metrics": {name: number}, "units": {name: unit}}.
Json describe_metrics(const DecoderMoment& moment);

} // namespace dllm::decode

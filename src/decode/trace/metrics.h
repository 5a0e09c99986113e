#pragma once
// The numbers that a decoder reports by name, one row each. All are whole.

#include "decode/trace/published.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace dllm::decode {

// A number of one request. For all requests together the numbers are added, or, where `all` is set,
// the number is 1 when it is above 0 in every request.
struct RequestMetric {
  const char* name;
  const char* unit;
  int64_t (*value)(const RequestCopy& request);
  bool all = false;
};

// A decoder as a whole at one moment.
struct DecoderMoment {
  Published::All now;
  bool suspended = false; // a step waits for the rest of its slices
};

// A number of the decoder. It takes the place of the sum where a request has a number of the same
// name.
struct TotalMetric {
  const char* name;
  const char* unit;
  int64_t (*value)(const DecoderMoment& moment);
};

std::span<const RequestMetric> request_metrics();
std::span<const TotalMetric> total_metrics();

// Both fail with not_found for another name.
int64_t metric_of(const RequestCopy& request, std::string_view name);
int64_t metric_of(const DecoderMoment& moment, std::string_view name);

// {"metrics": {name: number}, "units": {name: unit}}
Json describe_metrics(const DecoderMoment& moment);

} // namespace dllm::decode

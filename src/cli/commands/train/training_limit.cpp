#include "training_limit.h"

#include "command.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace dllm::cli {
namespace {

constexpr size_t kLimitSteps = 10;

} // namespace

TrainingLimit::TrainingLimit(const std::string& text) {
  if (text.empty()) return;
  const size_t cut = text.find('=');
  const std::string number = cut == std::string::npos ? "" : text.substr(cut + 1);
  char* end = nullptr;
  limit_ = std::strtod(number.c_str(), &end);
  if (cut == 0 || number.empty() || *end != '\0' || !std::isfinite(limit_)) {
    throw UsageFailure("--stop-above " + text + " is not NAME=NUMBER",
                       "write the name of a metric of the steps, = and its limit");
  }
  name_ = text.substr(0, cut);
}

void TrainingLimit::add(const dllm_event* step) {
  if (name_.empty()) return;
  double value = 0;
  if (dllm_event_f64(step, name_.c_str(), &value, nullptr) != DLLM_OK) {
    throw UsageFailure("--stop-above: the steps have no metric " + name_,
                       "metrics.jsonl of the run has the names");
  }
  values_.push_back(value);
  if (values_.size() > kLimitSteps) values_.pop_front();
}

double TrainingLimit::mean() const {
  return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

bool TrainingLimit::is_exceeded() const {
  return values_.size() == kLimitSteps && mean() > limit_;
}

std::string TrainingLimit::text() const {
  char text[200];
  std::snprintf(text, sizeof text, "%.100s of the last %zu steps is %.4g, above %.4g",
                name_.c_str(), kLimitSteps, mean(), limit_);
  return text;
}

} // namespace dllm::cli

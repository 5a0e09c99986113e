#include "train/step/step_metrics.h"

namespace dllm::train {
namespace {

constexpr StepMetric kStepMetrics[] = {
    {"step", &StepMetrics::step, "steps", true},
    {"loss", &StepMetrics::loss, "nats"},
    {"grad_norm", &StepMetrics::grad_norm, ""},
    {"lr", &StepMetrics::lr, ""},
    {"tokens", &StepMetrics::tokens, "tokens", true},
    {"tokens_per_second", &StepMetrics::tokens_per_second, "tokens per second"},
    {"mfu", &StepMetrics::mfu, "share of the peak"},
    {"memory", &StepMetrics::memory, "bytes", true},
    {"compiles", &StepMetrics::compiles, "programs", true},
    {"skipped", &StepMetrics::skipped, "steps", true},
    {"checkpoint_stall_seconds", &StepMetrics::checkpoint_stall_seconds, "seconds"},
    {"input_wait", &StepMetrics::input_wait, "seconds"},
    {"rank_wait", &StepMetrics::rank_wait, "seconds"},
};

} // namespace

std::span<const StepMetric> step_metrics() {
  return kStepMetrics;
}

std::map<std::string, double> named_metrics(const StepMetrics& metrics) {
  std::map<std::string, double> values;
  for (const StepMetric& row : kStepMetrics) values[row.name] = metrics.*row.member;
  return values;
}

} // namespace dllm::train

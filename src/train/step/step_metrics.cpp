#include "train/step/step_metrics.h"

namespace dllm::train {
namespace {

constexpr StepMetric kStepMetrics[] = {
    {"step", &StepMetrics::step, "steps", "Steps of the whole run.", true},
    {"loss", &StepMetrics::loss, "nats", "The number that is minimized."},
    {"grad_norm", &StepMetrics::grad_norm, "",
     "Norm of the gradient of all trained weights together, before clipping."},
    {"lr", &StepMetrics::lr, "", "Learning rate of the step."},
    {"tokens", &StepMetrics::tokens, "tokens", "Tokens of all steps.", true},
    {"tokens_per_second", &StepMetrics::tokens_per_second, "tokens per second",
     "Tokens of the step divided by its time."},
    {"mfu", &StepMetrics::mfu, "share of the peak",
     "Share of the machine's peak of multiplications that the step uses."},
    {"memory", &StepMetrics::memory, "bytes", "Memory that the engine holds.", true},
    {"compiles", &StepMetrics::compiles, "programs", "Programs that were compiled.", true},
    {"skipped", &StepMetrics::skipped, "steps",
     "Steps that were left out, because a number was not finite.", true},
    {"checkpoint_stall_seconds", &StepMetrics::checkpoint_stall_seconds, "seconds",
     "Time for which training waited for saves, since the start."},
    {"input_wait", &StepMetrics::input_wait, "seconds",
     "Time for which the step waited for its rows."},
    {"rank_wait", &StepMetrics::rank_wait, "seconds",
     "The longest time for which a rank waited for slower ranks."},
    {"run_seconds", &StepMetrics::run_seconds, "seconds",
     "Time of the whole run, which a budget of minutes bounds."},
};

} // namespace

std::span<const StepMetric> step_metrics() {
  return kStepMetrics;
}

StepMetrics metrics_of(const FinishedStep& done, graph::Engine& engine) {
  const StartedStep& step = done.started;
  const double peak = engine.peak_flops();
  const bool timed = done.seconds > 0;
  StepMetrics metrics;
  metrics.step = static_cast<double>(step.after.step);
  metrics.loss = done.loss;
  metrics.grad_norm = done.numbers.grad_norm;
  metrics.lr = step.lr;
  metrics.tokens = static_cast<double>(step.after.tokens);
  metrics.tokens_per_second = timed ? static_cast<double>(step.tokens) / done.seconds : 0.0;
  metrics.mfu = timed && peak > 0 ? done.flops / done.seconds / peak : 0.0;
  metrics.memory = static_cast<double>(engine.i64("memory_used"));
  metrics.compiles = static_cast<double>(engine.i64("compiles"));
  metrics.input_wait = step.input_wait;
  metrics.rank_wait = step.rank_wait;
  return metrics;
}

std::map<std::string, double> named_metrics(const StepMetrics& metrics) {
  std::map<std::string, double> values;
  for (const StepMetric& row : kStepMetrics) values[row.name] = metrics.*row.member;
  return values;
}

} // namespace dllm::train

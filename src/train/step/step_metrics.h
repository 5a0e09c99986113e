#pragma once
// The numbers that a training step reports by name, with one row per number.

#include "graph/engine.h"
#include "train/step/started_steps.h"

#include <map>
#include <span>
#include <string>

namespace dllm::train {

struct StepMetrics {
  double step = 0, loss = 0, grad_norm = 0, lr = 0, tokens = 0, tokens_per_second = 0, mfu = 0,
         memory = 0, compiles = 0, skipped = 0, checkpoint_stall_seconds = 0, input_wait = 0,
         rank_wait = 0, run_seconds = 0;
};

struct StepMetric {
  const char* name;
  double StepMetrics::*member;
  const char* unit; // "": the number has no unit
  const char* sentence;
  bool is_integer = false; // in events and files
};

std::span<const StepMetric> step_metrics();
// Returns the metrics of a step, except `skipped`, `checkpoint_stall_seconds` and `run_seconds`.
StepMetrics metrics_of(const FinishedStep& done, graph::Engine& engine);
// Returns the metrics by name. Trainer adds the parts of an objective's loss.
std::map<std::string, double> named_metrics(const StepMetrics& metrics);

} // namespace dllm::train

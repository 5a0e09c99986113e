#pragma once
// Sums of the micro-batches of an update. Private to src/train.

#include "noise/objective_state.h"
#include "train/step/train_program.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace dllm::train {

// Micro-batches since the last update. Their summed gradients are the arrays of use sum.
struct Accumulated {
  // Counts of all started micro-batches.
  int64_t batches = 0;
  int64_t rows = 0;  // global rows so far: the noise of the next micro-batch starts there
  int64_t drawn = 0; // micro-batches whose noise the trainer drew
  int64_t tokens = 0;
  // Sums over finished micro-batches.
  double sum = 0; // of the losses, unnormalized
  double normalizer = 0;
  double mean_sum = 0; // of the means of the micro-batches (option compat)
  double seconds = 0, flops = 0;
  std::map<std::string, std::pair<double, double>> parts; // sum, count
  noise::Observed observed;

  // Returns the loss of the update. `of_means`: the mean of the means of the micro-batches.
  double mean(bool of_means) const;
  // Adds the results of a finished micro-batch.
  void add(const StepNumbers& numbers, double run_seconds, double run_flops);
};

} // namespace dllm::train

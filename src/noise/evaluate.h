#pragma once
// The loss of batches without an update: dllm_objective_loss, held-out loss, finite differences in
// tests.

#include "noise/objective.h"
#include "runtime/programs.h"

#include <memory>
#include <string>

namespace dllm::noise {

struct LossValue {
  double sum = 0;        // unnormalized
  double normalizer = 0; // 0 when nothing is trained
  double mean() const {
    return sum / (normalizer > 1 ? normalizer : 1);
  } // max(1, n): an empty batch gives 0
};

// What each row of a batch gives, each for itself: a bound, how sure it is, and what people compare it by. In the norm
// token of an objective a row counts its trainable tokens.
struct RowLosses {
  std::vector<double> sums, counts; // one of each row, nats and normalizer
  double mean() const;              // sum of sums / sum of counts; 0 when nothing is trained
  double standard_error() const;    // of the mean, over rows; 0 for less than two
  double perplexity() const;        // exp(mean)
  double bits_per_byte(int64_t bytes) const; // of the text that all rows stand for
};

// Keeps the last few compiled programs, one per shape of feed. One call at a time; keeps model and
// objective alive.
class LossRunner {
public:
  LossRunner(std::shared_ptr<model::Model> model, ObjectiveRef objective);
  // Prepares the batch with (seed, step) unless it is prepared already.
  LossValue run(const Batch& batch, uint64_t seed, int64_t step, const Task* task);
  // The same noise, one pass a row. Progress in rows.
  RowLosses run_rows(const Batch& batch, uint64_t seed, int64_t step, Task* task);

private:
  Batch prepared(const Batch& batch, uint64_t seed, int64_t step) const;

  std::shared_ptr<model::Model> model_;
  ObjectiveRef objective_;
  runtime::ProgramCache<std::string> programs_; // by parts and feed_signature
};

// The loss and its gradient by every trainable parameter (f32), divided by the normalizer; for
// checks and tests.
struct LossGradients {
  LossValue loss;
  model::NamedTensors gradients; // by logical name
};
LossGradients loss_gradients(const model::Model& model, const Objective& objective,
                             const Batch& prepared, const Task* task = nullptr);

} // namespace dllm::noise

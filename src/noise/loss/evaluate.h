#pragma once
// Computes the loss of batches without an update: for dllm_objective_loss, held-out losses, and
// finite differences in tests.

#include "noise/objective.h"
#include "runtime/programs.h"

#include <memory>
#include <string>
#include <utility>

namespace dllm::noise {

struct LossValue {
  double sum = 0;        // unnormalized
  double normalizer = 0; // 0 when nothing is trained
  // Returns the loss. The divisor is max(1, normalizer), so that an empty batch gives 0.
  double mean() const { return sum / (normalizer > 1 ? normalizer : 1); }
};

// The loss of each row of a batch on its own. From the rows follow a bound, its standard error, and
// numbers to compare models by. When an objective has the norm `token`, a row counts its trainable
// tokens.
struct RowLosses {
  std::vector<double> sums, counts; // by row: nats, and normalizer
  double mean() const;              // sum of sums / sum of counts; 0 when nothing is trained
  double standard_error() const;    // of the mean, over rows; 0 for fewer than two rows
  double perplexity() const;        // exp(mean)
  // `bytes` is the size of the text of all rows.
  double bits_per_byte(int64_t bytes) const;
};

// Computes losses. It keeps the last few compiled programs, one per shape of feed. One call at a
// time. It keeps model and objective alive.
class LossRunner {
public:
  LossRunner(std::shared_ptr<model::Model> model, ObjectiveRef objective);
  // Sets the arrays that the loss reads, of Objective::first_state(); these are the first values.
  void set_state(StateArrays state) { state_ = std::move(state); }
  // Prepares the batch with (seed, step) unless it is prepared already, and returns its loss.
  LossValue run(const Batch& batch, uint64_t seed, int64_t step, const Task* task);
  // Returns the same loss, computed in parts of at most `rows` rows, which need less memory.
  LossValue run_parts(const Batch& batch, uint64_t seed, int64_t step, int64_t rows,
                      const Task* task);
  // Returns the loss of each row under the same noise, with one pass per row. Progress counts rows.
  RowLosses run_rows(const Batch& batch, uint64_t seed, int64_t step, Task* task);

private:
  Batch prepared(const Batch& batch, uint64_t seed, int64_t step) const;

  std::shared_ptr<model::Model> model_;
  ObjectiveRef objective_;
  StateArrays state_;
  runtime::ProgramCache<std::string> programs_; // by parts and feed_signature
};

// The loss and its gradients by every trainable parameter (f32), divided by the normalizer. For
// checks and tests.
struct LossGradients {
  LossValue loss;
  model::NamedTensors gradients; // by logical name
};
LossGradients loss_gradients(const model::Model& model, const Objective& objective,
                             const Batch& prepared, const Task* task = nullptr);

} // namespace dllm::noise

#pragma once
// Held-out loss of a trainer. Private to src/train.

#include "base/task.h"
#include "noise/loss/evaluate.h"
#include "train/batch_source.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace dllm::train {

struct Evaluation {
  double loss = 0; // mean over all trained tokens, in nats
  // Of the mean, over rows or batches that differ; not set for fewer than two of them.
  std::optional<double> standard_error;
  // Bits per byte of text, comparable between tokenizers. Where the loss bounds a likelihood they
  // are also comparable between objectives. Not set where the bytes are unknown.
  std::optional<double> bits_per_byte;
};

class Evaluator {
public:
  // Leaves out the terms of the objective (noise/terms), so that runs with and without a teacher
  // have comparable losses.
  Evaluator(std::shared_ptr<model::Model> model, const noise::ObjectiveRef& objective)
      : model_(std::move(model)), objective_(noise::without_terms(objective)),
        losses_(model_, objective_) {}

  // Evaluates at most `max_batches` batches with the arrays of an objective, in passes of at most
  // `rows` rows. The noise depends on the position in the source alone. Fails with out_of_range
  // when the source has no batch.
  Evaluation run(BatchSource& source, int64_t max_batches, int64_t rows,
                 const noise::StateArrays& state, Task* task);

private:
  bool can_split() const;

  std::shared_ptr<model::Model> model_;
  noise::ObjectiveRef objective_;
  noise::LossRunner losses_;
};

} // namespace dllm::train

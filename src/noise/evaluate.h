#pragma once
// The loss of batches without an update: dllm_objective_loss, held-out loss, finite differences in
// tests.

#include "noise/objective.h"

#include <list>

namespace dllm::noise {

struct LossValue {
  double sum = 0;        // unnormalized
  double normalizer = 0; // 0 when nothing is trained
  double mean() const {
    return sum / (normalizer > 1 ? normalizer : 1);
  } // max(1, n): an empty batch gives 0
};

// Keeps the last few compiled programs, one per shape of feed. One call at a time; keeps model and
// objective alive.
class LossRunner {
public:
  LossRunner(std::shared_ptr<model::Model> model, ObjectiveRef objective);
  // Prepares the batch with (seed, step) unless it is prepared already.
  LossValue run(const Batch& batch, uint64_t seed, int64_t step, const Task* task);

private:
  struct Entry;
  std::shared_ptr<model::Model> model_;
  ObjectiveRef objective_;
  std::list<std::shared_ptr<Entry>> programs_; // most recently used first
};

// The loss and its gradient by every trainable parameter (f32), divided by the normalizer; for
// checks and tests.
struct LossGradients {
  LossValue loss;
  model::NamedTensors gradients; // by logical name
};
LossGradients loss_gradients(const model::Model& model, const Objective& objective,
                             const Batch& prepared, const Task* task = nullptr);

// Name and type of every array: the key of a program.
std::string feed_signature(const Batch& feed);
// Makes a graph input "batch:<name>" for every array.
std::map<std::string, graph::Value> feed_inputs(graph::Graph& graph, const Batch& feed);

} // namespace dllm::noise

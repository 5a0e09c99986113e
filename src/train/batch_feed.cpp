#include "train/batch_feed.h"

#include "base/error.h"

namespace dllm::train {

int64_t count_tokens(const Batch& batch) {
  const Tensor* segments = batch.find("segments");
  if (segments == nullptr || segments->dtype() != DType::i32) return batch.at("ids").count();
  int64_t count = 0;
  for (const int32_t segment : segments->as<int32_t>()) count += segment != 0 ? 1 : 0;
  return count;
}

namespace {

Batch as_part_of_update(const noise::Objective& objective, const Batch& batch, const UpdatePart& part) {
  const auto [first, total] = batch.global_rows(batch.at("ids").shape()[0]);
  int64_t all = total + part.rows;
  if (objective.spreads_over_rows()) {
    if (part.batches >= part.of_batches) {
      fail_with_hint("set the trainer option accumulate to the number of batches of an update",
                     Code::failed_precondition,
                     "batch {} of an update of {}: objective {} spreads its times over the rows of the whole update",
                     part.batches + 1, part.of_batches, objective.name());
    }
    if (part.rows != part.batches * total) {
      fail_with_hint("give batches of equal size, or time_sampling = uniform", Code::invalid_argument,
                     "batch {} of an update has {} rows, those before it have {} together: objective {} spreads its "
                     "times over the rows of the whole update",
                     part.batches + 1, total, part.rows, objective.name());
    }
    all = total * part.of_batches;
  }
  Batch moved = batch;
  moved.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{first + part.rows, all}));
  return moved;
}

}  // namespace

Batch make_feed(const noise::Objective& objective, const model::ModelConfig& config, const Batch& batch,
                const NoiseKey& key, const UpdatePart* part) {
  if (objective.is_prepared(batch)) return objective.feed(batch, config);
  const noise::PrepareContext context = noise::prepare_context(objective, config);
  const Batch rows = part != nullptr ? as_part_of_update(objective, batch, *part) : batch;
  return objective.feed(objective.prepare(rows, key.seed, key.step, context), config);
}

}  // namespace dllm::train

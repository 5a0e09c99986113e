#include "train/step/feeds.h"

#include "base/error.h"
#include "base/random.h"

namespace dllm::train {

using graph::Axis;
using graph::AxisSet;

graph::AxisSet batch_axes(const graph::Mesh& mesh) {
  AxisSet axes;
  for (const Axis axis : {Axis::data, Axis::fsdp, Axis::expert}) {
    if (mesh.size(axis) > 1) axes = axes.with(AxisSet(axis));
  }
  return axes;
}

namespace {

Batch as_part_of_update(const noise::Objective& objective, const Batch& batch,
                        const UpdatePart& part) {
  const auto [first, total] = batch.global_rows(batch.at("ids").shape()[0]);
  int64_t all = total + part.rows;
  if (objective.spreads_over_rows()) {
    if (part.batches >= part.of_batches) {
      fail_with_hint("set the trainer option accumulate to the number of batches of an update",
                     Code::failed_precondition,
                     "got batch {} of an update of {} batches: objective {} spreads its times over "
                     "the rows of the whole update",
                     part.batches + 1, part.of_batches, objective.name());
    }
    if (part.rows != part.batches * total) {
      fail_with_hint("give batches of equal size, or time_sampling = uniform",
                     Code::invalid_argument,
                     "batch {} of an update has {} rows, the batches before it have {} together: "
                     "objective {} spreads its times over the rows of the whole update",
                     part.batches + 1, total, part.rows, objective.name());
    }
    all = total * part.of_batches;
  }
  Batch moved = batch;
  moved.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{first + part.rows, all}));
  return moved;
}

// Returns rows [begin, end) of every array with one row per row of the batch. "rows" numbers the
// whole batch, and a mask may be one table for all rows.
Batch rows_of(const Batch& prepared, int64_t batch, int64_t begin, int64_t end) {
  Batch made;
  for (const auto& [name, array] : prepared) {
    const bool whole = name == "rows" || array.shape().rank() == 0 || array.shape()[0] != batch;
    made.set(name, whole ? array : array.rows(begin, end));
  }
  return made;
}

// Gives each feed the keys of its rows. An objective may have stacked several copies of the rows.
void add_dropout_keys(Feeds& feeds, const Batch& batch, const Batch& prepared, const NoiseKey& key,
                      const UpdatePart* part) {
  const int64_t given = batch.at("ids").shape()[0], rows = prepared.at("ids").shape()[0];
  const int64_t first = batch.global_rows(given).first + (part != nullptr ? part->rows : 0);
  Tensor keys(DType::u32, {rows, 2});
  for (int64_t row = 0; row < rows; ++row) {
    Key own = stream_key(key.seed, Stream::dropout, static_cast<uint64_t>(key.step),
                         static_cast<uint64_t>(first + row % given));
    if (row >= given) own = fold_in(own, static_cast<uint32_t>(row / given));
    keys.mutable_as<uint32_t>()[static_cast<size_t>(2 * row)] = own.hi;
    keys.mutable_as<uint32_t>()[static_cast<size_t>(2 * row + 1)] = own.lo;
  }
  const int64_t each = rows / static_cast<int64_t>(feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * each;
    feeds[i].set(kDropoutKeys, keys.rows(begin, begin + each));
  }
}

} // namespace

Feeds make_feeds(const noise::Objective& objective, const model::ModelConfig& config,
                 const Batch& batch, const NoiseKey& key, const UpdatePart* part,
                 const graph::Mesh& mesh) {
  Batch prepared = batch;
  if (!objective.is_prepared(batch)) {
    const noise::PrepareContext context = noise::prepare_context(objective, config);
    const Batch rows = part != nullptr ? as_part_of_update(objective, batch, *part) : batch;
    prepared = objective.prepare(rows, key.seed, key.step, context);
  }
  const int64_t parts = mesh.size(batch_axes(mesh));
  if (parts == 1) {
    Feeds feeds = {objective.feed(prepared, config)};
    if (key.of_adapters) add_dropout_keys(feeds, batch, prepared, key, part);
    return feeds;
  }
  const int64_t rows = prepared.at("ids").shape()[0];
  if (rows % parts != 0) {
    fail_with_hint("choose a batch that is a multiple of it", Code::invalid_argument,
                   "a batch of {} rows does not divide by the {} ranks that share it (mesh of {})",
                   rows, parts, mesh.text());
  }
  Feeds feeds;
  for (int64_t i = 0; i < parts; ++i) {
    feeds.push_back(objective.feed(
        rows_of(prepared, rows, i * (rows / parts), (i + 1) * (rows / parts)), config));
  }
  if (key.of_adapters) add_dropout_keys(feeds, batch, prepared, key, part);
  return feeds;
}

} // namespace dllm::train

#include "train/evaluator.h"

#include "base/error.h"
#include "text/data/dataset.h" // hash_bytes

#include <algorithm>
#include <numbers>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace dllm::train {

namespace {

// "eval": the same noise for every model and every trainer.
constexpr uint64_t kEvalSeed = 0x6576616C;

noise::LossValue sum_of(const noise::RowLosses& rows) {
  return {std::accumulate(rows.sums.begin(), rows.sums.end(), 0.0),
          std::accumulate(rows.counts.begin(), rows.counts.end(), 0.0)};
}

// The losses of rows, or of whole batches, that differ. A row that comes again has other noise and
// the same text, so it says nothing more about other texts.
class DistinctLosses {
public:
  // Returns for each row of a batch whether it has not been seen before.
  std::vector<bool> news(const Batch& batch) {
    const Tensor& ids = batch.at("ids");
    const auto rows = static_cast<size_t>(ids.shape()[0]);
    const std::span<const int32_t> all = ids.as<int32_t>();
    std::vector<bool> made(rows);
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const int32_t> own =
          all.subspan(row * (all.size() / rows), all.size() / rows);
      made[row] = seen_.insert(text::hash_bytes(own.data(), own.size_bytes(), 0)).second;
    }
    return made;
  }
  // Adds a loss, unless it is of no token.
  void add(double sum, double count) {
    if (count <= 0) return;
    losses_.sums.push_back(sum);
    losses_.counts.push_back(count);
  }
  std::optional<double> standard_error() const {
    if (losses_.sums.size() < 2) return std::nullopt;
    return losses_.standard_error();
  }

private:
  std::set<uint64_t> seen_;
  noise::RowLosses losses_;
};

} // namespace

// Returns true when each row of a batch can have a loss of its own. On a mesh a pass cannot have a
// single row.
bool Evaluator::can_split() const {
  const graph::Engine& engine = model_->engine();
  return engine.mesh().ranks() == 1 && engine.processes() == 1;
}

namespace {

// Returns true when the error must be computed from rows: with few rows the batches hold the same
// rows.
bool has_few_rows(const BatchSource& source, const Batch& first, int64_t max_batches) {
  const int64_t rows = first.at("ids").shape()[0], epoch = source.epoch_rows();
  return max_batches == 1 || (epoch > 0 && max_batches > epoch / rows);
}

} // namespace

Evaluation Evaluator::run(BatchSource& source, int64_t max_batches, int64_t rows,
                          const noise::StateArrays& state, Task* task) {
  losses_.set_state(state);
  noise::LossValue total;
  DistinctLosses distinct;
  int64_t done = 0;
  bool has_few = false;
  const ReadingAhead ahead(source, max_batches);
  for (; done < max_batches; ++done) {
    check_task(task);
    const int64_t position = source.position();
    const std::optional<Batch> batch = source.next();
    if (!batch) break;
    if (done == 0) has_few = has_few_rows(source, *batch, max_batches);
    const std::vector<bool> news = distinct.news(*batch);
    const bool has_new = std::ranges::find(news, true) != news.end();
    const bool has_old = std::ranges::find(news, false) != news.end();
    noise::LossValue one;
    // A batch with rows that came before gives the losses of its new rows.
    if (has_new && (has_few || has_old) && can_split()) {
      const noise::RowLosses each = losses_.run_rows(*batch, kEvalSeed, position, task);
      one = sum_of(each);
      for (size_t row = 0; row < news.size(); ++row) {
        if (news[row]) distinct.add(each.sums[row], each.counts[row]);
      }
    } else {
      one = losses_.run_parts(*batch, kEvalSeed, position, rows, task);
      if (!has_old) distinct.add(one.sum, one.normalizer);
    }
    total.sum += one.sum;
    total.normalizer += one.normalizer;
    if (task != nullptr) task->set_progress(done + 1, max_batches);
  }
  if (done == 0) fail(Code::out_of_range, "the data holds no batch to evaluate");
  if (total.normalizer == 0)
    fail(Code::out_of_range, "the data holds no token to learn in {} batches", done);
  Evaluation made{total.mean(), distinct.standard_error(), std::nullopt};
  const double bytes = objective_->bounds_likelihood() ? source.bytes_per_token() : 0;
  if (bytes > 0) made.bits_per_byte = total.mean() / std::numbers::ln2 / bytes;
  return made;
}

} // namespace dllm::train

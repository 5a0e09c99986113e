#include "train/evaluator.h"

#include "base/error.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

namespace dllm::train {

// "eval": the same noise for every model and every trainer.
constexpr uint64_t kEvalSeed = 0x6576616C;

Evaluation Evaluator::run(BatchSource& source, int64_t max_batches, int64_t rows,
                          const noise::StateArrays& state, Task* task) {
  losses_.set_state(state);
  noise::LossValue total;
  std::vector<double> means;
  const ReadingAhead ahead(source, max_batches);
  for (int64_t i = 0; i < max_batches; ++i) {
    check_task(task);
    const int64_t position = source.position();
    const std::optional<Batch> batch = source.next();
    if (!batch) break;
    const noise::LossValue one = losses_.run_parts(*batch, kEvalSeed, position, rows, task);
    total.sum += one.sum;
    total.normalizer += one.normalizer;
    means.push_back(one.mean());
    if (task != nullptr) task->set_progress(i + 1, max_batches);
  }
  if (means.empty()) fail(Code::out_of_range, "the data holds no batch to evaluate");
  if (total.normalizer == 0)
    fail(Code::out_of_range, "the data holds no token to learn in {} batches", means.size());
  double spread = 0;
  for (const double mean : means) spread += (mean - total.mean()) * (mean - total.mean());
  const auto count = static_cast<double>(means.size());
  Evaluation made{total.mean()};
  if (count > 1) made.standard_error = std::sqrt(spread / (count - 1) / count);
  const double bytes = objective_->bounds_likelihood() ? source.bytes_per_token() : 0;
  if (bytes > 0) made.bits_per_byte = total.mean() / std::numbers::ln2 / bytes;
  return made;
}

} // namespace dllm::train

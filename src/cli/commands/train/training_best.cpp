#include "training_best.h"

#include <algorithm>

namespace dllm::cli {

namespace {

using Json = nlohmann::ordered_json;

int64_t whole_in(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

} // namespace

Best Best::of(const Json& record) {
  Best best;
  const auto loss = record.find("loss");
  const int64_t step = whole_in(record, "step");
  if (step < 0 || loss == record.end() || !loss->is_number()) return best;
  best.step_ = step;
  best.loss_ = loss->get<double>();
  best.last_step_ = whole_in(record, "last_step");
  best.without_ = std::max<int64_t>(whole_in(record, "without"), 0);
  return best;
}

Json Best::record() const {
  return {{"step", step_}, {"loss", loss_}, {"last_step", last_step_}, {"without", without_}};
}

bool Best::add(int64_t step, double loss) {
  // A run that went back to an earlier checkpoint evaluates a step again. It may have been killed
  // before the checkpoint of the lowest loss was on disk.
  const bool again = step == step_ && loss <= loss_;
  const bool is_new = step > last_step_;
  last_step_ = std::max(step, last_step_);
  if (!(loss < loss_) && !again) {
    without_ += is_new ? 1 : 0;
    return false;
  }
  step_ = step;
  loss_ = loss;
  without_ = 0;
  return true;
}

} // namespace dllm::cli

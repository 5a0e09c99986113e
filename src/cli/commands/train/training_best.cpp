#include "training_best.h"

#include <algorithm>
#include <cmath>

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
  const auto kept = record.find("kept");
  if (kept == record.end() || !kept->is_array()) { // of an older run
    best.kept_ = {{best.loss_, best.step_}};
    return best;
  }
  for (const Json& entry : *kept) {
    if (!entry.is_object() || whole_in(entry, "step") < 0) continue;
    const auto number = entry.find("loss");
    if (number == entry.end() || !number->is_number()) continue;
    best.kept_.emplace_back(number->get<double>(), whole_in(entry, "step"));
  }
  std::sort(best.kept_.begin(), best.kept_.end());
  return best;
}

Json Best::record() const {
  Json kept = Json::array();
  for (const auto& [loss, step] : kept_) kept.push_back({{"step", step}, {"loss", loss}});
  return {{"step", step_},
          {"loss", loss_},
          {"last_step", last_step_},
          {"without", without_},
          {"kept", std::move(kept)}};
}

bool Best::keep(int64_t step, double loss, int64_t count) {
  std::erase_if(kept_, [&](const auto& entry) { return entry.second >= step; });
  if (std::isfinite(loss)) kept_.emplace_back(loss, step);
  std::sort(kept_.begin(), kept_.end());
  if (kept_.size() > static_cast<size_t>(count)) kept_.resize(static_cast<size_t>(count));
  return std::any_of(kept_.begin(), kept_.end(),
                     [&](const auto& entry) { return entry.second == step; });
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

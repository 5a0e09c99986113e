#include "noise/terms/replayed_terms.h"

#include "noise/terms/table.h"

namespace dllm::noise {

ObjectiveRef replayed_terms_of(const Objective& objective) {
  Options alone = objective.options();
  std::vector<std::string> names;
  for (const TermEntry& entry : term_entries()) {
    if (entry.is_replayed && alone.f64(entry.name()) != 0) names.push_back(entry.name());
  }
  if (names.empty()) return nullptr;
  turn_off_terms(alone);
  for (const std::string& name : names) alone.set_f64(name, 1);
  alone.set_f64("own_weight", 0);
  return with_options(objective, alone);
}

void set_replayed_weights(Batch& feed, const std::string& prefix) {
  for (const TermEntry& entry : term_entries()) {
    const std::string weight = prefix + weight_array(entry.name());
    if (feed.has(weight)) feed.set(weight, Tensor::scalar(1.0f));
  }
}

} // namespace dllm::noise

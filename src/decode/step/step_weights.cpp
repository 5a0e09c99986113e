#include "decode/step/step_weights.h"

#include "base/error.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace dllm::decode {

StepWeights::StepWeights(std::shared_ptr<model::Model> model, std::shared_ptr<model::Model> source,
                         DecodeState& state, SlotList& slots, bool may_change)
    : model_(std::move(model)), source_(std::move(source)), state_(state), slots_(slots),
      may_change_(may_change), source_version_(source_->version()) {
  weights_.version = model_->version();
  versions_ = versions();
}

StepWeights::Versions StepWeights::versions() const {
  Versions now;
  now.base = model_->params().base_version();
  for (const std::string& name : model_->parts().names()) {
    if (name == model::kBasePart) continue;
    const std::shared_ptr<const model::Part> part = model_->parts().find(name);
    now.parts[name] = {part->number, model_->params().changes(name), part->scale, part->kind};
  }
  return now;
}

std::map<std::string, model::PartKind>
StepWeights::Versions::changed(const Versions& before) const {
  std::map<std::string, model::PartKind> made;
  for (const auto& [name, part] : parts) {
    const auto found = before.parts.find(name);
    if (found == before.parts.end() || !(found->second == part)) made[name] = part.kind;
  }
  for (const auto& [name, part] : before.parts) {
    if (!parts.contains(name)) made[name] = part.kind;
  }
  return made;
}

void StepWeights::check_source() const {
  if (source_ == model_ || source_->version() == source_version_) return;
  fail_with_hint("make a new decoder", Code::failed_precondition,
                 "the model's weights changed from version {} to {}, and a decoder with "
                 "adapter_folders keeps its first weights",
                 source_version_, source_->version());
}

Weights StepWeights::take(const Task* task) {
  check_source();
  Weights weights = weights_of(*model_, task, &weights_);
  Versions now = versions();
  // A training step in between changes the version once more.
  while (model_->version() != weights.version) {
    weights = weights_of(*model_, task, &weights_);
    now = versions();
  }
  if (weights.version != weights_.version) drop_state(now);
  versions_ = std::move(now);
  weights_ = {{}, {}, weights.version, weights.layouts};
  return weights;
}

// Drops K, V and predictions that other weights made. Fails when they may not change.
void StepWeights::drop_state(const Versions& now) {
  const bool is_base_new = now.base != versions_.base;
  const std::map<std::string, model::PartKind> changed = now.changed(versions_);
  const bool has_changed_adapter = std::ranges::any_of(
      changed, [](const auto& part) { return part.second == model::PartKind::adapter; });
  const auto any_changed = [&](const std::vector<std::string>& names) {
    return std::ranges::any_of(names,
                               [&](const std::string& name) { return changed.contains(name); });
  };
  const auto is_lost = [&](const std::optional<model::PartList>& parts) {
    return is_base_new || (parts ? any_changed(parts->names()) : has_changed_adapter);
  };
  const auto reads_changed = [&](const Slot& slot) {
    return is_lost(slot.method()->parts()) || any_changed(slot.method()->other_parts());
  };
  const auto must_stop = [&](const auto& row) {
    return row.second.is_active() && reads_changed(row.second);
  };
  if (!may_change_ && (is_base_new || std::ranges::any_of(slots_.all(), must_stop))) {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", weights_.version,
                   model_->version());
  }
  state_.lose([&](const RowKind& kind) { return is_lost(kind.parts); });
  for (auto& row : slots_.all()) {
    if (reads_changed(row.second)) row.second.set_predicted(false);
  }
}

} // namespace dllm::decode

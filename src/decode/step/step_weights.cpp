#include "decode/step/step_weights.h"

#include "base/error.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

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
    const std::shared_ptr<const model::Part> part = model_->parts().find(name);
    if (part->kind != model::PartKind::adapter) continue;
    now.adapters[name] = {part->number, model_->params().changes(name), part->scale};
  }
  return now;
}

void StepWeights::check_source() const {
  if (source_ == model_ || source_->version() == source_version_) return;
  fail_with_hint("make a new decoder", Code::failed_precondition,
                 "the model's weights changed from version {} to {}, and a decoder with "
                 "adapter_folders keeps those of its start",
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
  std::set<std::string> changed; // adapters that changed, came or went
  for (const auto& [part, own] : now.adapters) {
    const auto before = versions_.adapters.find(part);
    if (before == versions_.adapters.end() || !(before->second == own)) changed.insert(part);
  }
  for (const auto& [part, own] : versions_.adapters) {
    if (!now.adapters.contains(part)) changed.insert(part);
  }
  const auto is_lost = [&](const std::optional<model::PartList>& parts) {
    if (is_base_new || !parts) return is_base_new || !changed.empty();
    return std::ranges::any_of(parts->names(),
                               [&](const std::string& part) { return changed.contains(part); });
  };
  const auto reads = [&](const auto& row) {
    return row.second.is_active() && is_lost(row.second.method()->parts());
  };
  if (!may_change_ && (is_base_new || std::ranges::any_of(slots_.all(), reads))) {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", weights_.version,
                   model_->version());
  }
  state_.lose([&](const RowKind& kind) { return is_lost(kind.parts); });
  for (auto& row : slots_.all()) {
    if (is_lost(row.second.method()->parts())) row.second.set_predicted(false);
  }
}

} // namespace dllm::decode

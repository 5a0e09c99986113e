#include "train/step/trainer_arrays.h"

#include "model/model.h"
#include "model/params/stack_part.h"

namespace dllm::train {

namespace {

// Returns an array that the next step does not change.
graph::BufferRef resident_copy(const graph::BufferRef& array) {
  const auto* offloaded = dynamic_cast<const OffloadedBuffer*>(array.get());
  return offloaded == nullptr ? array : offloaded->resident();
}

} // namespace

graph::BufferRef TrainerArrays::zeros(const StateEntry& entry) const {
  return model::upload_zeros(spec_.model->engine(), entry.layout);
}

std::vector<std::shared_ptr<OffloadedBuffer>> TrainerArrays::offloaded(const ProgramSpec& spec,
                                                                       bool with_sums) {
  const auto is_sum = [](const StateEntry& entry) { return entry.use == StateUse::sum; };
  auto made = make_offloaded(spec, [&](const StateEntry& entry) { return !is_sum(entry); });
  if (!with_sums) return made;
  const auto sums = make_offloaded(spec, is_sum); // in their own file, which ends before
  for (size_t i = 0; i < made.size(); ++i) {
    if (sums[i] != nullptr) made[i] = sums[i];
  }
  return made;
}

void TrainerArrays::allocate_offloaded() {
  const std::vector<graph::BufferRef> weights = spec_.model->params().snapshot();
  // A run that accumulates finds out now whether its sums have room.
  const bool with_sums = spec_.options.i64("accumulate") > 1;
  std::vector<graph::BufferRef> made, sums(with_sums ? spec_.state.size() : 0);
  for (const auto& array : offloaded(spec_, with_sums)) {
    const size_t i = made.size();
    const StateEntry& entry = spec_.state[i];
    made.push_back(array);
    if (entry.use == StateUse::average) {
      const graph::Buffer& weight = *weights[spec_.trained[entry.parameter]];
      array->assign(weight.read_part().to(DType::f32));
    } else if (entry.use == StateUse::sum && with_sums) {
      sums[i] = std::exchange(made.back(), nullptr);
    }
  }
  arrays_ = std::move(made);
  kept_sums_ = std::move(sums);
}

void TrainerArrays::allocate() {
  if (spec_.offloads()) return allocate_offloaded();
  std::vector<graph::BufferRef> made;
  const std::vector<graph::BufferRef> weights = spec_.model->params().snapshot();
  for (const StateEntry& entry : spec_.state) {
    switch (entry.use) {
    case StateUse::optimizer: made.push_back(zeros(entry)); break;
    case StateUse::average:
      made.push_back(model::upload_copy(spec_.model->engine(),
                                        *weights[spec_.trained[entry.parameter]],
                                        entry.layout.layout(), nullptr));
      break;
    case StateUse::sum: made.push_back(nullptr); break;
    }
  }
  arrays_ = std::move(made);
}

void TrainerArrays::allocate_sums() {
  if (spec_.offloads() && kept_sums_.empty()) {
    const auto is_sum = [](const StateEntry& entry) { return entry.use == StateUse::sum; };
    for (const auto& sum : make_offloaded(spec_, is_sum)) kept_sums_.push_back(sum);
  }
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum && arrays_[i] == nullptr)
      arrays_[i] = spec_.offloads() ? kept_sums_[i] : zeros(spec_.state[i]);
  }
}

void TrainerArrays::clear_sums() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum) arrays_[i] = nullptr;
  }
}

std::vector<graph::BufferRef> TrainerArrays::averages() const {
  const model::ParamStore& params = spec_.model->params();
  std::vector<graph::BufferRef> made(params.physical().size());
  params.while_whole([&] {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (spec_.state[i].use == StateUse::average)
        made[spec_.trained[spec_.state[i].parameter]] = resident_copy(arrays_[i]);
    }
  });
  return made;
}

} // namespace dllm::train

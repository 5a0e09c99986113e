#include "train/step/trainer_arrays.h"

#include "model/model.h"
#include "model/params/stack_part.h"

namespace dllm::train {

graph::BufferRef TrainerArrays::zeros(const StateEntry& entry) const {
  return model::upload_zeros(spec_.model->engine(), entry.layout);
}

void TrainerArrays::allocate() {
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
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (spec_.state[i].use == StateUse::sum && arrays_[i] == nullptr)
      arrays_[i] = zeros(spec_.state[i]);
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
        made[spec_.trained[spec_.state[i].parameter]] = arrays_[i];
    }
  });
  return made;
}

} // namespace dllm::train

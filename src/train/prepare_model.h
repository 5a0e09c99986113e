#pragma once
// What a trainer changes in a model before the first step. Private to src/train.

#include "base/options.h"
#include "model/model.h"
#include "noise/objective.h"

namespace dllm::train {

// Gives the model a mask token where the objective needs one, the attention and shift it is trained with, frozen
// tensors, and f32 masters. Fails with failed_precondition when there is no place for a mask token.
void prepare_model(model::Model& model, const noise::Objective& objective, const Options& options);

}  // namespace dllm::train

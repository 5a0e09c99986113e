#pragma once
// Mask fillers: networks that change the input of the base at positions with the mask token
// (docs/decisions/0026-fillers.md).

#include "model/network/builder.h"

namespace dllm::model {

struct FilledInput {
  graph::Value embeddings; // f32(batch, seq, hidden): the input of the first layer
  FilledMasks masks;
};

// Returns the input of a base with a mask filler. `inputs` has ids of whole rows, and may have
// other embeddings in place of theirs. Fails with failed_precondition when the model has no mask
// token, and with not_found when the program does not read the filler's networks.
FilledInput fill_masks(Builder& base, const ForwardInputs& inputs);

} // namespace dllm::model

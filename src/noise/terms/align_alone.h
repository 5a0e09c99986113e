#pragma once
// The alignment of an objective without the rest of its loss.

#include "noise/objective.h"

namespace dllm::noise {

// Returns an objective with the rows and the noise of this one, whose loss is its alignment with
// weight 1. Null when the objective aligns nothing.
ObjectiveRef alignment_of(const Objective& objective);

} // namespace dllm::noise

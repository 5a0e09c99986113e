#pragma once
// The terms of an objective that a trainer with option replay compares again for earlier batches.

#include "noise/objective.h"

namespace dllm::noise {

// Returns an objective with the rows and the noise of this one, whose loss is its replayed terms,
// each with weight 1. Null when the objective has no such term.
ObjectiveRef replayed_terms_of(const Objective& objective);

// Sets the weights of the replayed terms to 1 in a feed whose names begin with `prefix`.
void set_replayed_weights(Batch& feed, const std::string& prefix);

} // namespace dllm::noise

#pragma once
// The weight of a loss that comes in late, as LDLM (arXiv 2605.07933) lets its encoder see the
// diffusion loss: a logistic curve over the first updates.

#include <cstdint>

namespace dllm::noise {

// Returns the weight at an update: `least` at update 0, rising along a logistic curve whose middle
// is at 0.8 of `updates`, and 1 from `updates` on.
double warm_up(int64_t update, int64_t updates, double least);

} // namespace dllm::noise

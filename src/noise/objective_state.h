#pragma once
// The arrays that an objective keeps next to the weights while a model is trained: running
// statistics, bins of times, a buffer. They are part of a checkpoint.

#include "tensor/batch.h"
#include "tensor/tensor.h"

#include <map>
#include <string>
#include <vector>

namespace dllm::noise {

// Arrays f32 by name.
using StateArrays = std::map<std::string, Tensor>;
// Sums that the losses of one update observed, by name: over all rows, batches and ranks.
using Observed = std::map<std::string, std::vector<double>>;

// Fails with failed_precondition, naming the array, if `state` has other names or shapes than
// `expected`. The state of `name`, an objective.
void check_state(const std::string& name, const StateArrays& state, const StateArrays& expected);

} // namespace dllm::noise

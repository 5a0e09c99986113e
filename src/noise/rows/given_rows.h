#pragma once
// Decides whether a caller gave raw rows or the arrays of a loss. All objectives use it, so that no
// array of a caller is overwritten or ignored without an error.

#include "tensor/batch.h"

#include <string>
#include <vector>

namespace dllm::noise {

struct GivenRules {
  std::string objective;
  // Arrays of raw rows that are allowed in addition to ids, keep, prompt_length, labels, segments
  // and rows.
  std::vector<std::string> raw;
  // Arrays that a prepared batch must have in addition to targets and weights.
  std::vector<std::string> prepared;
  // true: a prepared batch must not count tokens that keep gives.
  bool given_is_left_out = true;
};

// Returns true when the batch holds all arrays of the loss, and false when it holds none of
// targets, weights and normalizer. Fails with invalid_argument, naming the array, when only some
// arrays are there or an array contradicts them.
bool holds_loss_arrays(const Batch& batch, const GivenRules& rules);

// Returns the rows with prompt_length merged into keep. Fails with invalid_argument, naming the
// array, for a reserved array that the objective does not read.
Batch raw_rows(const Batch& batch, const GivenRules& rules);

} // namespace dllm::noise

#pragma once
// What a caller gave an objective: raw rows, or the arrays of a loss. One place decides it for all
// objectives, so that no array that a caller set is overwritten or left out without a word.

#include "tensor/batch.h"

#include <string>
#include <vector>

namespace dllm::noise {

struct GivenRules {
  std::string objective;
  // Arrays of raw rows in addition to ids, keep, prompt_length, labels, segments and rows.
  std::vector<std::string> raw;
  // Arrays of a prepared batch in addition to targets and weights.
  std::vector<std::string> prepared;
  // A prepared batch counts no token that keep gives.
  bool given_is_left_out = true;
};

// True when the batch holds all arrays of the loss, false when it holds none of targets, weights
// and normalizer. Fails with invalid_argument, naming the array, for a part of them, and for an
// array that contradicts them.
bool holds_loss_arrays(const Batch& batch, const GivenRules& rules);

// The same rows with prompt_length as part of keep. Fails with invalid_argument, naming the array,
// for a reserved array that the objective does not read.
Batch raw_rows(const Batch& batch, const GivenRules& rules);

} // namespace dllm::noise

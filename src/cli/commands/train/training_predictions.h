#pragma once
// predict_row() corrupts a row of a batch with the objective of a run and returns the predictions
// of the model at the corrupted positions.

#include "training.h"

#include <cstdint>
#include <vector>

namespace dllm::cli {

Owned<dllm_tensor> ids_array(const dllm_batch* batch); // (rows, length)

// Returns a batch with the first `width` tokens of one row, to be corrupted at time t. `number`
// selects the noise, as the number of the row.
Owned<dllm_batch> row_of(const dllm_batch* batch, int64_t row, int64_t width, float t,
                         int64_t number);

struct PredictedRow {
  std::vector<int32_t> ids, guesses, states; // states: 0 given, 1 predicted wrong, 2 right
  // Mean loss of the corrupted tokens in nats, corrupted fraction of the tokens that are not given,
  // and rightly predicted fraction of the corrupted tokens.
  double loss = 0, share = 0, right = 0;
  bool counts = false; // at least one token is corrupted
};

// Fails with DLLM_UNIMPLEMENTED where the objective makes rows of another length.
PredictedRow predict_row(const Context& context, const Run& run, const dllm_batch* row);

} // namespace dllm::cli

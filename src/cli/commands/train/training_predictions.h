#pragma once
// Rows of a batch with some tokens hidden, as the objective of a run does it, and what its model predicts there.

#include "training.h"

#include <cstdint>
#include <vector>

namespace dllm::cli {

Owned<dllm_tensor> ids_array(const dllm_batch* batch); // (rows, length)

// The first `width` tokens of one row, to be corrupted at time t; its noise is that of row `number`.
Owned<dllm_batch> row_of(const dllm_batch* batch, int64_t row, int64_t width, float t,
                         int64_t number);

// Tokens of one row: 0 given, 1 wrong, 2 right. Losses are of the corrupted ones.
struct PredictedRow {
  std::vector<int32_t> ids, guesses, states;
  double loss = 0, share = 0, right = 0; // mean; corrupted of those that may be; right of these
  bool counts = false;                   // one token is corrupted
};

// Fails with DLLM_UNIMPLEMENTED where the objective makes rows of another length.
PredictedRow predict_row(const Context& context, const Run& run, const dllm_batch* row);

} // namespace dllm::cli

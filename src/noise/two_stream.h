#pragma once
// Rows of block objectives: [noised | clean], both with the positions of the row (attention two_stream).

#include "noise/objectives/table.h"

namespace dllm::noise {

// `source` with ids, targets and weights of twice the length, and everything else that has a number for each token.
// padding_hidden: padding is no key of either half, and segments keep apart; false: both are left out, as the references
// do. Fails with invalid_argument for a batch with an attention mask of its own.
Batch two_streams(const TokenCeArrays& made, const Batch& source, bool padding_hidden);

// The block length of the context; fails with failed_precondition when there is none.
int64_t needed_block_length(const Objective& objective, const PrepareContext& context);

} // namespace dllm::noise

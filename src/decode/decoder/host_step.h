#pragma once
// The host may decide the tokens of a step. These functions return the predictions that it reads,
// and write the tokens that it chose.

#include "decode/slot/slot.h"
#include "decode/trace/published.h"
#include "tensor/batch.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::decode {

// Fails with unimplemented if a slot decodes an array, and with failed_precondition if none is
// active.
void check_predictable(const std::vector<Slot*>& active);
// Returns the predictions of a request as the arrays of Decoder::statistics. Fails with
// failed_precondition if there are none.
Batch statistics_of(const RequestCopy& request);
// Writes the tokens that the host chose and ends the step of the slot. The arguments and errors of
// Decoder::commit. vocab: number of tokens of the model.
void commit_tokens(Slot& slot, std::span<const int64_t> positions, std::span<const int32_t> tokens,
                   int64_t vocab);

} // namespace dllm::decode

#pragma once
// The arrays of one pass, as step_program.cpp declares its inputs.

#include "decode/step_program.h"
#include "tensor/batch.h"

#include <span>

namespace dllm::decode {

// The row of hidden states that predicts a position, inside a window that begins at `begin`: the
// one before it under shift 1; the window's first predicts itself, as Dream's and Fast-dLLM's do.
int64_t predicting(int64_t position, int shift, int64_t begin);

// The arrays of window_states: ids, positions, limit, and where they apply slides, query_start,
// timesteps, soft_*, guidance, write_at, read_at, from, to, length; banned too.
void add_window_feed(Batch& feed, const model::ModelConfig& config, const StepSettings& settings,
                     const StepShape& shape, std::span<const PassRow> rows,
                     const DecodeState& state);

Batch step_feed(const model::ModelConfig& config, const StepSettings& settings,
                const StepShape& shape, std::span<const PassRow> rows, const DecodeState& state);

} // namespace dllm::decode

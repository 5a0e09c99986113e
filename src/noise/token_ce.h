#pragma once
// The one loss graph of the masked and autoregressive objectives: cross entropy of chosen tokens,
// weighted. The head runs only on rows that have a target.
//
//   loss = sum_r weights[r] * -log softmax(head(hidden[row(r) - shift]))[targets[r]] / max(1, sum_b
//   normalizer[b])

#include "noise/objective.h"

#include <span>

namespace dllm::noise {

// Arrays of the graph:
//   ids i32(batch, seq); positions, segments i32(batch, seq), keys u8(batch, seq) (1: may be seen),
//   mask u8(batch, queries, keys), timesteps f32(batch), block i32(): only when the batch or the
//   attention has them rows, row_targets i32(capacity), row_weights f32(capacity), count i32():
//   capacity = batch * seq, first `count` in use normalizer f32(batch)
// first_predicts_itself: with shift 1 a target at position 0 is read from row 0 (dllm-jax, MDLM trainer
// step 6); else such a target is an error. block: for block-causal attention, 0: none.
struct TokenCeSettings {
  int64_t vocab = 0;         // ids and targets are below; 0: not checked
  int64_t max_positions = 0; // of the model; 0: not checked
  int shift = 0;
  bool first_predicts_itself = false;
  int64_t block = 0;
  bool time_conditioning = false; // the model reads timesteps
};
// Prepared arrays are checked here, wherever they come from: fails with invalid_argument naming the
// array, the place, the number and its bound.
Batch token_ce_feed(const Batch& prepared, const TokenCeSettings& settings);

Loss token_ce_loss(model::Builder& builder, const std::map<std::string, graph::Value>& arrays,
                   model::AttentionKind attention, bool empty_average = false);

// Checks ids, keep, segments and labels of a raw batch: shapes, types, ids within the vocabulary.
struct TokenRows {
  int64_t batch = 0, seq = 0;
  std::span<const int32_t> ids;
  std::span<const uint8_t> keep;     // empty: nothing is kept
  std::span<const int32_t> segments; // empty: one segment a row, no padding
  std::span<const int32_t> labels;   // empty: every token may be trained

  // A token that may be corrupted and counted: not given, not padding, not labelled -100.
  bool trainable(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    return (keep.empty() || keep[i] == 0) && (segments.empty() || segments[i] != 0) &&
           (labels.empty() || labels[i] >= 0);
  }
};
TokenRows token_rows(const Batch& batch, int64_t vocab);

} // namespace dllm::noise

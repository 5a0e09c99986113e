#pragma once
// The one loss graph of the masked and autoregressive objectives: cross entropy of chosen tokens, weighted. The head runs
// only on rows that have a target.
//
//   loss = sum_r weights[r] * -log softmax(head(hidden[row(r) - shift]))[targets[r]] / max(1, sum_b normalizer[b])

#include "model/token_batch.h"
#include "noise/objective.h"

#include <span>

namespace dllm::noise {

// Names of the arrays that a loss graph reads in addition to those of model::input_arrays. The first `head_count` of the
// batch * seq entries are in use.
inline constexpr const char* kHeadRows =
    "head_rows"; // i32(capacity): the row that predicts the target
inline constexpr const char* kHeadTargets = "head_targets"; // i32(capacity)
inline constexpr const char* kHeadWeights = "head_weights"; // f32(capacity)
inline constexpr const char* kHeadCount = "head_count";     // i32()
inline constexpr const char* kNormalizer = "normalizer";    // f32(batch)

// first_predicts_itself: with shift 1 a target at position 0 is read from row 0 (dllm-jax, MDLM trainer step 6); else
// such a target is an error.
struct TokenCeSettings {
  model::AttentionKind attention = model::AttentionKind::bidirectional;
  int64_t block = 0; // of block_causal and two_stream attention
  int shift = 0;
  bool first_predicts_itself = false;
  // two_stream with shift 1: the first token of a block is predicted by the clean token before it, as when blocks are
  // decoded one by one; false: by the noised one.
  bool clean_predicts_blocks = false;
};
// The position of the row (of seq tokens) whose hidden state predicts this one; -1: nothing stands before it.
int64_t predicting_position(int64_t position, int64_t seq, const TokenCeSettings& settings);
// rows: parsed for TokenUse::loss.
Batch token_ce_feed(const model::TokenBatch& rows, const TokenCeSettings& settings);
Loss token_ce_loss(model::Builder& builder, const LossInputs& inputs);

// A raw batch, parsed: what an objective corrupts.
struct TokenRows {
  model::TokenBatch arrays;
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
TokenRows token_rows(const Batch& batch, int64_t vocab); // vocab 0: not checked

} // namespace dllm::noise

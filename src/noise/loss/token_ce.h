#pragma once
// The loss graph of the masked and autoregressive objectives: the weighted cross entropy of chosen
// tokens. The head runs only on rows that have a target.
//
//   loss = sum_r weights[r] * -log softmax(head(hidden[row(r) - shift]))[targets[r]]
//          / max(1, sum_b normalizer[b])

#include "model/network/token_batch.h"
#include "noise/objective.h"

#include <span>

namespace dllm::noise {

// Names of the arrays that a loss graph reads in addition to the arrays of model::input_arrays.
// Only the first `head_count` of the batch * seq entries are in use. kHeadRows, i32(capacity),
// names the row that predicts each target.
inline constexpr const char* kHeadRows = "head_rows";
inline constexpr const char* kHeadTargets = "head_targets"; // i32(capacity)
inline constexpr const char* kHeadWeights = "head_weights"; // f32(capacity)
inline constexpr const char* kHeadCount = "head_count";     // i32()
inline constexpr const char* kNormalizer = "normalizer";    // f32(batch)

// With `first_predicts_itself` and shift 1, position 0 predicts a target at position 0 (dllm-jax,
// MDLM trainer step 6). Otherwise such a target is an error.
struct TokenCeSettings {
  model::AttentionKind attention = model::AttentionKind::bidirectional;
  int64_t block = 0; // block length of block_causal and two_stream attention
  int shift = 0;
  bool first_predicts_itself = false;
  // two_stream with shift 1. true: the clean token before a block predicts the first token of the
  // block, as when blocks are decoded one by one. false: the noised token before it.
  bool clean_predicts_blocks = false;
};
// Returns the position of the row (of seq tokens) whose hidden state predicts this one; -1: no
// position precedes it.
int64_t predicting_position(int64_t position, int64_t seq, const TokenCeSettings& settings);
// Returns the arrays of the loss. REQUIRES: `rows` were parsed for TokenUse::loss.
Batch token_ce_feed(const model::TokenBatch& rows, const TokenCeSettings& settings);
Loss token_ce_loss(model::Builder& builder, const LossInputs& inputs);

// A raw batch after parsing, which an objective corrupts.
struct TokenRows {
  model::TokenBatch arrays;
  int64_t batch = 0, seq = 0;
  std::span<const int32_t> ids;
  std::span<const uint8_t> keep;     // empty: no token is given
  std::span<const int32_t> segments; // empty: one segment per row, no padding
  std::span<const int32_t> labels;   // empty: every token may be trained
  // true: the first token of each text of a row is given. With shift 1 the state before it belongs
  // to no text, or to another one.
  bool first_is_given = false;

  // Returns true when the token is the first of a text: of the row, or of a segment.
  bool starts_text(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    return index % seq == 0 || (!segments.empty() && segments[i] != segments[i - 1]);
  }
  // Returns true when the token may be corrupted and counted: it is not given, not padding, and not
  // labelled -100.
  bool trainable(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    return (keep.empty() || keep[i] == 0) && (segments.empty() || segments[i] != 0) &&
           (labels.empty() || labels[i] >= 0) && !(first_is_given && starts_text(index));
  }
};
// vocab 0: ids are not checked.
TokenRows token_rows(const Batch& batch, int64_t vocab, bool first_is_given);

} // namespace dllm::noise

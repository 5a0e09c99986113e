#pragma once
// Rows of tokens, typed. Every batch from outside comes through one parser, which checks all numbers; programs get
// their arrays and their attention mask from one place, whether they compute logits or a loss.

#include "model/builder.h"
#include "tensor/batch.h"

#include <map>
#include <string>

namespace dllm::model {

// Arrays that a batch does not have are not defined. Those of one batch have the shape (batch, seq) unless it is given.
struct TokenBatch {
  int64_t batch = 0, seq = 0;
  Tensor ids;        // i32, below the vocabulary
  Tensor embeddings; // f32(batch, seq, hidden), in place of ids
  Tensor positions;  // i32
  Tensor segments;   // i32: a token sees its own segment only; 0: padding
  Tensor keys;       // u8: 1: may be seen
  Tensor limit;      // i32: a token does not see this place of its row, nor those behind it
  Tensor
      mask; // u8(batch, seq, seq), 1: the query may see the key; also u8(1, seq, seq), for all rows
  Tensor timesteps; // f32(batch), for models with time conditioning
  // Of training.
  Tensor keep;       // u8: 1: given, never corrupted or counted
  Tensor labels;     // i32: negative: not counted
  Tensor targets;    // i32, below the vocabulary; -1: none
  Tensor weights;    // f32
  Tensor normalizer; // f32(batch)
};

// What a batch must have in addition to ids.
enum class TokenUse {
  model_input, // ids or embeddings; timesteps where the model needs them
  raw_rows,    // to be corrupted
  loss         // targets and weights; timesteps where the model needs them
};
struct TokenRules {
  TokenUse use = TokenUse::model_input;
  int64_t vocab = 0;          // 0: ids are not compared with a vocabulary
  int64_t position_limit = 0; // 0: positions and lengths are not checked
  int64_t hidden = 0;         // of embeddings
  bool time_conditioning = false;
};
TokenRules token_rules(TokenUse use, const ModelConfig& config);

// Fails with not_found for a missing array; with invalid_argument naming the array, the place, the number and its limit.
TokenBatch parse_tokens(const Batch& batch, const TokenRules& rules);

// The arrays of a program that runs the model on these rows: those that are there, and what the attention needs
// ("block", "length", positions of two_stream, where both halves count from 0). block: of block_causal and two_stream.
// Fails with failed_precondition when it is missing, with invalid_argument for two_stream over an odd length.
Batch input_arrays(const TokenBatch& rows, AttentionKind attention, int64_t block);
// What a token sees by its place alone. block: i32 scalar, for block_causal and two_stream; length: i32 scalar, for
// two_stream. Fails with invalid_argument when one is missing, or for `automatic`.
graph::Mask make_mask(AttentionKind kind, graph::Value block = {}, graph::Value length = {});
// The same arrays as values of a graph, with the mask of all that they say.
ForwardInputs forward_inputs(const std::map<std::string, graph::Value>& arrays,
                             AttentionKind attention, bool empty_average);

} // namespace dllm::model

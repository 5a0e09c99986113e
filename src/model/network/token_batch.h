#pragma once
// Checked arrays of token rows. One parser reads every batch from outside and checks all numbers.
// Programs for logits and for losses get their arrays and their attention mask here.

#include "model/network/builder.h"
#include "tensor/batch.h"

#include <map>
#include <string>

namespace dllm::model {

// The arrays of one batch. Arrays that the batch does not have are undefined. The shape is (batch,
// seq) unless a comment gives another one.
struct TokenBatch {
  int64_t batch = 0, seq = 0;
  Tensor ids;        // i32, below the vocabulary
  Tensor embeddings; // f32(batch, seq, hidden), in place of ids
  Tensor positions;  // i32
  Tensor segments;   // i32: a token sees only tokens of its own segment; 0: padding
  Tensor keys;       // u8: 1: queries may see the token
  // i32: a token sees only the positions of its row that are less than its limit.
  Tensor limit;
  // u8(batch, seq, seq), or u8(1, seq, seq) for all rows: 1: the query may see the key.
  Tensor mask;
  Tensor timesteps; // f32(batch), for models with time conditioning
  // Arrays that only training reads.
  Tensor keep;       // u8: 1: the token is given: it is never corrupted or counted
  Tensor labels;     // i32: a negative label is not counted
  Tensor targets;    // i32, below the vocabulary; -1: none
  Tensor weights;    // f32
  Tensor normalizer; // f32(batch)
};

// Names what a batch must have in addition to ids.
enum class TokenUse {
  model_input, // ids or embeddings; timesteps where the model needs them
  raw_rows,    // rows that an objective will corrupt
  loss         // targets and weights; timesteps where the model needs them
};
struct TokenRules {
  TokenUse use = TokenUse::model_input;
  int64_t vocab = 0;          // 0: ids are not compared with a vocabulary
  int64_t position_limit = 0; // 0: positions and lengths are not checked
  int64_t hidden = 0;         // size of one embedding
  bool time_conditioning = false;
};
TokenRules token_rules(TokenUse use, const ModelConfig& config);

// Checks the arrays of `batch` and returns them. Fails with not_found for a missing array. Fails
// with invalid_argument for a wrong array, and names the array, the position, the number and its
// limit.
TokenBatch parse_tokens(const Batch& batch, const TokenRules& rules);

// Returns the arrays of a program that runs the model on these rows. The result has the arrays that
// `rows` defines, and the scalars "block" and "length" that the attention needs. For two_stream it
// also has positions, and both halves count from 0.
// `block` is the block length of block_causal and two_stream. Fails with failed_precondition when
// it is missing, and with invalid_argument for two_stream over rows of odd length.
Batch input_arrays(const TokenBatch& rows, AttentionKind attention, int64_t block);
// Returns the part of the attention mask that depends on positions alone. `block` is an i32 scalar
// for block_causal and two_stream, `length` an i32 scalar for two_stream. Fails with
// invalid_argument when one of them is missing, or when `kind` is `automatic`.
graph::Mask make_mask(AttentionKind kind, graph::Value block = {}, graph::Value length = {});
// Returns the arrays of input_arrays() as values of a graph. The mask combines the attention with
// the arrays segments, keys, limit and mask.
ForwardInputs forward_inputs(const std::map<std::string, graph::Value>& arrays,
                             AttentionKind attention, bool empty_average);

} // namespace dllm::model

#pragma once
// Where the logical tensors of a model lie in a GGUF file: gguf-py's names, rows and their order.

#include "ckpt/gguf.h"
#include "model/config.h"
#include "model/param_map.h"

#include <string>

namespace dllm::model {

// Rows [row, row + rows) of a tensor of the file; rows count over all axes but the last. Experts of a layer are one
// tensor (experts, out, in); q, k and v may be one as well.
struct GgufPlace {
  std::string name; // "blk.0.attn_q.weight"; empty: GGUF has no name for it
  int64_t row = 0;
  int64_t expert = -1;
};

GgufPlace gguf_place(const std::string& logical, const ModelConfig& config);
// q, k and v of `place` in the tensor blk.N.attn_qkv, which some files have instead.
GgufPlace fused_place(const GgufPlace& place, const ModelConfig& config);

// Names of general.architecture that are read, sorted.
std::string gguf_architectures();

// ggml turns neighbouring pairs in files of llama and llada, Hugging Face halves: row (head, i, j) of the file is row
// (head, j, i) of dllm's, i < dim / 2, j < 2. Whether the rows of a logical tensor are in that order.
bool turns_pairs(const std::string& logical, const ModelConfig& config);
Tensor halves_from_pairs(const Tensor& pairs, int64_t head_dim);
Tensor pairs_from_halves(const Tensor& halves, int64_t head_dim);

// A matrix of one row, which files hold as a vector: the gate of a shared expert.
bool is_single_row(const std::string& logical);

// Files of Gemma hold 1 + weight. Whether a logical tensor is such a norm.
bool is_centered_norm(const std::string& logical, const ModelConfig& config);

} // namespace dllm::model

#pragma once
// Maps the logical tensors of a model to the tensors of a GGUF file: their gguf-py names, their
// rows, and the order of the rows.

#include "ckpt/gguf/gguf.h"
#include "model/config.h"
#include "model/params/param_map.h"

#include <string>

namespace dllm::model {

// The first word of dllm's own keys in the metadata.
inline constexpr const char* kGgufOwn = "dllm.";

// The location of a logical tensor in the file. It begins at row `row` of the tensor `name`. Rows
// count over all axes but the last. The experts of a layer are one tensor (experts, out, in), and
// q, k and v may share one tensor.
struct GgufPlace {
  std::string name; // "blk.0.attn_q.weight"; empty: GGUF has no name for the tensor
  int64_t row = 0;
  int64_t expert = -1;
};

GgufPlace gguf_place(const std::string& logical, const ModelConfig& config);
// Returns the location of q, k or v in the tensor blk.N.attn_qkv, which some files have in place of
// the three tensors. `place` is the location in a tensor of its own.
GgufPlace fused_place(const GgufPlace& place, const ModelConfig& config);

// Returns the sorted names of general.architecture that can be read.
std::string gguf_architectures();

// Returns true when the file stores the rows of a logical tensor in pairs. Files of llama and llada
// rotate neighbouring rows, as ggml does; Hugging Face rotates row i with row i + dim / 2. Row
// (head, i, j) of the file is row (head, j, i) in dllm, with i < dim / 2 and j < 2.
bool turns_pairs(const std::string& logical, const ModelConfig& config);
Tensor halves_from_pairs(const Tensor& pairs, int64_t head_dim);
Tensor pairs_from_halves(const Tensor& halves, int64_t head_dim);

// Returns true for a matrix of one row that files store as a vector. The gate of a shared expert is
// one.
bool is_single_row(const std::string& logical);

// Returns true for a norm whose tensor in the file is 1 + weight, as files of Gemma have it.
bool is_centered_norm(const std::string& logical, const ModelConfig& config);

} // namespace dllm::model

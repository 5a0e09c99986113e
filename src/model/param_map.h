#pragma once
// How logical tensors (one per Hugging Face name) lie in physical ones (stacked over layers): data,
// not code. physical[layer][row_begin .. row_end, :] = logical or its transpose. Experts are
// stacked once more: physical[layer][expert, :, :] = logical.

#include "model/partition.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::model {

// What a parameter is for: decides its storage form, first value and weight decay.
enum class ParamRole {
  weight,        // matrix of a linear: (out, in)
  embedding,     // rows are looked up; also the head when tied
  positions,     // rows are looked up only
  norm,          // first value 1
  bias,          // first value 0
  centered_norm, // first value 0: 1 + weight multiplies
  adapter,       // half of a low-rank product added to a weight: f32
  router,        // as weight, but always f32: which expert is chosen must not hang on rounding
};
// Vectors, not matrices: always f32, read as they are, no weight decay.
inline bool is_vector(ParamRole role) {
  return role == ParamRole::norm || role == ParamRole::bias || role == ParamRole::centered_norm;
}

// Part of a physical tensor that comes from one logical tensor.
struct ParamPiece {
  std::string logical;    // "{}" stands for the layer: "model.layers.{}.self_attn.q_proj.weight"
  int64_t rows = 0;       // extent of the first physical axis (of one layer); experts: 1
  bool transpose = false; // stored (in, out)
};

struct ParamSpec {
  std::string name; // "layers.q"; unique
  ParamRole role = ParamRole::weight;
  int64_t layers = 0;             // 0: not stacked
  int64_t first_layer = 0;        // "{}" counts from here
  Shape element;                  // of one layer: (out, in), (size) or (experts, out, in)
  std::vector<ParamPiece> pieces; // their rows add up to element[0]
  bool residual_out = false; // first values are divided by sqrt(2 layers), as GPT-2 does where it
                             // adds to the residual
  float factor = 1;          // of an adapter's product, stands with its second half
  Partition partition;       // how ranks share it

  Shape shape() const { return layers > 0 ? element.with_front(layers) : element; }
  int64_t copies() const { return layers > 0 ? layers : 1; }
  std::string logical_name(const ParamPiece& piece, int64_t layer) const;
  Shape logical_shape(const ParamPiece& piece) const;
};

// '*' in a pattern stands for any run of characters.
bool name_matches(std::string_view pattern, std::string_view name);
// Logical tensors of a stack whose names match.
int64_t count_matches(const std::string& pattern, const ParamSpec& spec);
// FNV-1a, 64 bits: the name of a tensor as a number that never changes; keys of first values.
uint64_t name_number(std::string_view name);

// The same map for anything of the same layout: weights, moments, gradients, averages. Any dtype.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
NamedTensors split_physical(const ParamSpec& spec, const Tensor& physical);
// read(name) returns the logical tensor in `dtype`.
Tensor join_logical(const ParamSpec& spec, DType dtype,
                    const std::function<Tensor(const std::string&)>& read,
                    const Task* task = nullptr);
// First element of a piece in the physical tensor.
int64_t piece_begin(const ParamSpec& spec, size_t piece, int64_t layer);
// One logical tensor into or out of its place. The task is checked every MB.
void write_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
                 Tensor& physical, const Task* task = nullptr);
Tensor read_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& physical,
                  const Task* task = nullptr);

} // namespace dllm::model

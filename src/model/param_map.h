#pragma once
// How logical tensors (one per Hugging Face name) lie in physical ones (stacked over layers): data,
// not code. physical[layer][row_begin .. row_end, :] = logical or its transpose. Experts are
// stacked once more: physical[layer][expert, :, :] = logical.

#include "graph/mesh.h"
#include "tensor/tensor.h"
#include "tensor/weight_format.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::model {

// How the ranks of a mesh share one weight (out, in).

enum class PartitionKind {
  none,    // every rank has all of it
  columns, // a rank has some of the outputs: y is this rank's part
  rows, // a rank has some of the inputs: x is this rank's part, products are summed over the ranks
  experts, // a rank has some of the matrices of a stack: over axis expert
};

struct Partition {
  PartitionKind kind = PartitionKind::none; // over axis tensor; experts: over expert
  int64_t ranks = 1;                        // of that axis
  // FSDP: over axis fsdp this dimension of a matrix is cut where it lies, and whole while it is used; -1: none.
  int64_t gathered_dim = -1;
  int64_t gathered_ranks = 1;

  bool cuts() const { return kind != PartitionKind::none && ranks > 1; }
  bool is_whole() const { return !cuts() && gathered_ranks <= 1; }
  // Of an array with these dimensions: `leading` ones of the stack, then `rank` ones of the parameter.
  graph::Layout layout(int64_t leading, int64_t rank) const;
  friend bool operator==(const Partition&, const Partition&) = default;
};

// What a parameter is for: decides its storage form, first value and weight decay.
enum class ParamRole {
  weight,        // matrix of a linear: (out, in)
  embedding,     // rows are looked up; also the head when tied
  positions,     // rows are looked up only
  norm,          // first value 1
  bias,          // first value 0
  centered_norm, // first value 0: 1 + weight multiplies
  adapter,       // half of a low-rank product added to a weight: f32
  convolution,   // of single channels: (channels, width), in files (channels, 1, width)
  decay_rate,    // logarithms of rates: first values log of 0.01 to 16
  router,        // as weight, but always f32: which expert is chosen must not hang on rounding
};
// Vectors, not matrices of products: always f32, read as they are, no weight decay.
inline bool is_vector(ParamRole role) {
  return role == ParamRole::norm || role == ParamRole::bias || role == ParamRole::centered_norm ||
         role == ParamRole::convolution || role == ParamRole::decay_rate;
}

// Part of a physical tensor that comes from one logical tensor.
struct ParamPiece {
  std::string logical;    // "{}" stands for the layer: "model.layers.{}.self_attn.q_proj.weight"
  int64_t rows = 0;       // extent of the first physical axis (of one layer); experts: 1
  bool transpose = false; // stored (in, out)
  bool between = false;   // stored (rows, 1, columns)
  bool stack = false;     // all matrices of a stack in one tensor: (experts, out, in)
};

struct ParamSpec {
  std::string part = "base"; // of the model (model/part.h)
  std::string name;          // "layers.q"; unique in its part
  std::string use; // "attention.q": kind of layer and name in it; outside of layers the name
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
  graph::Layout layout() const { return partition.layout(layers > 0 ? 1 : 0, element.rank()); }
  int64_t copies() const { return layers > 0 ? layers : 1; }
  // As a model names the tensor, with its part; and without it, as files do.
  std::string logical_name(const ParamPiece& piece, int64_t layer) const;
  std::string file_name(const ParamPiece& piece, int64_t layer) const;
  Shape logical_shape(const ParamPiece& piece) const;
};

// '*' in a pattern stands for any run of characters.
bool name_matches(std::string_view pattern, std::string_view name);
// Logical tensors of a stack whose names match. The part of an adapter may be left out of the pattern.
int64_t count_matches(const std::string& pattern, const ParamSpec& spec);
// FNV-1a, 64 bits: the name of a tensor as a number that never changes; keys of first values.
uint64_t name_number(std::string_view name);

// The same map for anything of the same layout: weights, moments, gradients, averages. Any dtype.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
NamedTensors split_physical(const ParamSpec& spec, const Tensor& physical);
// read(name, piece) returns the logical tensor, of any float type.
Tensor join_logical(const ParamSpec& spec, DType dtype,
                    const std::function<Tensor(const std::string&, size_t)>& read,
                    const Task* task = nullptr);
// First element of a piece in the physical tensor.
int64_t piece_begin(const ParamSpec& spec, size_t piece, int64_t layer);
// One logical tensor into or out of its place. The task is checked every MB.
void write_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
                 Tensor& physical, const Task* task = nullptr);
Tensor read_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& physical,
                  const Task* task = nullptr);

// The host side of one physical parameter in the weight format it will be kept in.

struct ParamForm {
  ParamForm(const ParamSpec& spec, const WeightFormat& format);
  ParamForm(const ParamSpec& spec, DType dtype) : ParamForm(spec, weight_format(dtype)) {}
  // A part.
  ParamForm(const WeightFormat& format, Tensor values, Tensor scale, double rounding);

  const WeightFormat* format;
  Tensor values; // stored_shape(*format, spec.shape())
  Tensor scale;  // f32(spec.shape() without the last axis); formats with ScalePlace::row_array
  double rounding =
      0; // quantized: largest |stored - wanted| / largest |wanted| so far, over rows or blocks
  // Of an engine in several processes: what this one keeps (stack_part.h). Nothing is put into it.
  bool is_part = false;

  // Where the bytes of one logical tensor lie when they lie as in the tensor itself, stored in this
  // format; null when put() has to turn or round them.
  std::byte* place(const ParamSpec& spec, size_t piece, int64_t layer);
  // Puts one logical tensor (any float type) into its place.
  void put(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
           const Task* task = nullptr);
};

// Stored numbers as f32. scale: for int8.
Tensor dequantize(const Tensor& values, const Tensor& scale, const Task* task = nullptr);
// The format a parameter takes when `wanted` is asked for: norms, biases and routers are always f32, quantized
// formats are for matrices and tables whose rows are whole blocks. Rows that are no whole blocks are q8_0 where they are
// whole blocks of 32 and `wanted` has larger ones, else f32.
const WeightFormat& storage_format(const ParamSpec& spec, const WeightFormat& wanted);

} // namespace dllm::model

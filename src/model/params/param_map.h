#pragma once
// Maps logical tensors (one per Hugging Face name) to physical ones (stacked over layers), as data.
// physical[layer][row_begin .. row_end, :] is a logical tensor or its transpose. Experts have one
// more axis: physical[layer][expert, :, :] is a logical tensor.

#include "ckpt/part_names.h"
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
  none,    // every rank has the whole weight
  columns, // a rank has some outputs: its y is a part
  // A rank has some inputs: its x is a part, and the products are summed over the ranks.
  rows,
  experts, // a rank has some matrices of a stack, cut over axis expert
};

struct Partition {
  PartitionKind kind = PartitionKind::none; // cut over axis tensor, or axis expert for experts
  int64_t ranks = 1;                        // ranks of that axis
  // FSDP: the matrix is stored cut over axis fsdp in this dimension, and gathered for its use; -1:
  // it is not cut.
  int64_t gathered_dim = -1;
  int64_t gathered_ranks = 1;

  bool cuts() const { return kind != PartitionKind::none && ranks > 1; }
  bool is_whole() const { return !cuts() && gathered_ranks <= 1; }
  // Returns the layout of an array with `leading` dimensions of the stack, then `rank` dimensions
  // of the parameter.
  graph::Layout layout(int64_t leading, int64_t rank) const;
  friend bool operator==(const Partition&, const Partition&) = default;
};

// The purpose of a parameter. It decides the storage form, the first value and the weight decay.
enum class ParamRole {
  weight,        // matrix of a linear: (out, in)
  embedding,     // a table to look rows up in; also the head when tied
  positions,     // a table to look rows up in
  norm,          // first value 1
  bias,          // first value 0
  centered_norm, // first value 0: the factor is 1 + weight
  adapter,       // half of a low-rank product that is added to a weight; always f32
  convolution,   // one filter per channel: (channels, width), in files (channels, 1, width)
  decay_rate,    // logarithms of rates: first values log of 0.01 to 16
  // As weight, but always f32, so that rounding cannot change which expert is chosen.
  router,
};
// Returns true for parameters that are not matrices of products. They are always f32, are read as
// they are, and have no weight decay.
inline bool is_vector(ParamRole role) {
  return role == ParamRole::norm || role == ParamRole::bias || role == ParamRole::centered_norm ||
         role == ParamRole::convolution || role == ParamRole::decay_rate;
}

// The part of a physical tensor that comes from one logical tensor.
struct ParamPiece {
  std::string logical;    // "{}" stands for the layer: "model.layers.{}.self_attn.q_proj.weight"
  int64_t rows = 0;       // extent of the first physical axis in one layer; experts: 1
  bool transpose = false; // stored (in, out)
  bool between = false;   // stored (rows, 1, columns)
  bool stack = false; // the file stores all matrices of a stack in one tensor: (experts, out, in)
};

struct ParamSpec {
  std::string part = ckpt::kBasePart; // name of the part (model/params/part.h)
  std::string name;                   // "layers.q"; unique in its part
  // "attention.q": the layer kind and the name in it. Outside of layers it is the name alone.
  std::string use;
  ParamRole role = ParamRole::weight;
  int64_t layers = 0;             // 0: not stacked
  int64_t first_layer = 0;        // number of the first layer, which "{}" counts from
  Shape element;                  // of one layer: (out, in), (size) or (experts, out, in)
  std::vector<ParamPiece> pieces; // the rows of all pieces add up to element[0]
  // First values are divided by sqrt(2 layers), as GPT-2 does for products that are added to the
  // residual stream.
  bool residual_out = false;
  bool zero = false;   // first values are 0
  float factor = 1;    // of an adapter's product; stored with its second half
  Partition partition; // how the ranks share the parameter

  Shape shape() const { return layers > 0 ? element.with_front(layers) : element; }
  graph::Layout layout() const { return partition.layout(layers > 0 ? 1 : 0, element.rank()); }
  int64_t copies() const { return layers > 0 ? layers : 1; }
  // Return the name of a tensor with its part, as a model names it, and without the part, as files
  // name it.
  std::string logical_name(const ParamPiece& piece, int64_t layer) const;
  std::string file_name(const ParamPiece& piece, int64_t layer) const;
  Shape logical_shape(const ParamPiece& piece) const;
};

// Returns true when `name` matches; '*' in the pattern stands for any text.
bool name_matches(std::string_view pattern, std::string_view name);
// Returns the number of logical tensors of a stack whose names match. A pattern may leave out the
// part of an adapter.
int64_t count_matches(const std::string& pattern, const ParamSpec& spec);
// Returns the FNV-1a hash (64 bits) of a tensor's name. It never changes, and first values are
// keyed by it.
uint64_t name_number(std::string_view name);

// The same map for any array with the layout of a parameter, of any dtype: weights, moments,
// gradients, averages.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
NamedTensors split_physical(const ParamSpec& spec, const Tensor& physical);
// Joins logical tensors. read(name, piece) returns one of them in any float type.
Tensor join_logical(const ParamSpec& spec, DType dtype,
                    const std::function<Tensor(const std::string&, size_t)>& read,
                    const Task* task = nullptr);
// Returns the index of a piece's first element in the physical tensor.
int64_t piece_begin(const ParamSpec& spec, size_t piece, int64_t layer);
// Copy one logical tensor to or from its location. The task is checked every MB.
void write_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
                 Tensor& physical, const Task* task = nullptr);
Tensor read_piece(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& physical,
                  const Task* task = nullptr);

// One physical parameter on the host, in the weight format that it will be stored in.

struct ParamForm {
  ParamForm(const ParamSpec& spec, const WeightFormat& format);
  ParamForm(const ParamSpec& spec, DType dtype) : ParamForm(spec, weight_format(dtype)) {}
  // Makes the part that one process keeps.
  ParamForm(const WeightFormat& format, Tensor values, Tensor scale, double rounding);

  const WeightFormat* format;
  Tensor values; // stored_shape(*format, spec.shape())
  Tensor scale;  // f32 table_shape(*format, spec.shape()), for formats with a table
  // Quantized formats: largest |stored - wanted| / largest |wanted| so far, over rows or blocks.
  double rounding = 0;
  // The form is the part that one process of an engine keeps (stack_part.h). put() must not be
  // called for it.
  bool is_part = false;

  // Returns the address of the bytes of one logical tensor that is stored in this format without a
  // change. Returns null when put() must transpose or round the tensor.
  std::byte* place(const ParamSpec& spec, size_t piece, int64_t layer);
  // Writes one logical tensor (any float type) to its location.
  void put(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
           const Task* task = nullptr);
  // Writes rows that are stored in this format already, with their numbers of the table. REQUIRES:
  // the format has a table, and the piece has the layout of the file.
  void put_rows(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& rows,
                const Tensor& table);

private:
  // Returns the row of a stack of matrices where a piece begins.
  static int64_t first_row(const ParamSpec& spec, size_t piece, int64_t layer);
};

// Returns stored numbers as f32. `scale` is the table of formats that have one.
Tensor dequantize(const Tensor& values, const Tensor& scale, const Task* task = nullptr);
// Returns the format of a parameter when the caller wants `wanted`. Norms, biases and routers are
// always f32. Quantized formats are for matrices and tables whose rows are whole blocks. Other rows
// become q8_0 where `wanted` has larger blocks and the rows are whole blocks of 32, else f32.
const WeightFormat& storage_format(const ParamSpec& spec, const WeightFormat& wanted);

} // namespace dllm::model

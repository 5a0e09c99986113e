#pragma once
// The 4-bit matrices of bitsandbytes (QLoRA, Dettmers et al. 2023; files of version 0.50). Numbers
// of a matrix are counted over all rows. Each block of 64 has a scale, its largest |x|. A byte has
// two neighbouring numbers, the first one in its high half. Scales are f32, or codes of 8 bits with
// a scale for 256 of them (double quantization).

#include "base/json.h"
#include "base/task.h"
#include "base/threads/parallel.h"
#include "tensor/box.h"
#include "tensor/tensor.h"
#include "tensor/weight_format.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dllm::ckpt {

// Before the name of the format in the name of a matrix's state.
inline constexpr const char* kBits4State = ".quant_state.bitsandbytes__";

// Returns the signed dynamic map of 8 bits, ascending.
const std::array<float, 256>& dynamic_map();

// Numbers as codes of 8 bits, with the largest |x| of each block.
struct DynamicCodes {
  std::vector<uint8_t> codes;
  std::vector<float> tops;
};
DynamicCodes dynamic_codes(std::span<const float> numbers, int64_t block);
// Returns number `i`.
float dynamic_number(const DynamicCodes& codes, int64_t block, int64_t i);

// Returns the scales of blocks as codes of their distance from the mean, which is `offset`.
DynamicCodes coded_tops(std::span<const float> tops, int64_t group, float* offset);

// Numbers as codes of 4 bits in pairs, with the largest |x| of each block.
struct Bits4Codes {
  std::vector<uint8_t> pairs;
  std::vector<float> tops;
  double error = 0; // the largest |stored - x| of a block over its largest |x|
};
// Returns the names of the formats that such matrices have: "nf4 or fp4" with the word "or".
std::string bits4_names(const char* word);
// block: even. REQUIRES: format.bitsandbytes is not null. The last block, and the last pair, may be
// short.
Bits4Codes bits4_codes(const WeightFormat& format, std::span<const float> numbers, int64_t block,
                       const Workers& workers = {});
// Returns the 16 levels of a format. REQUIRES: format.bitsandbytes is not null.
std::span<const float, 16> bits4_levels(const WeightFormat& format);

// How one matrix is stored: what its quant_state says.
struct Bits4Form {
  // Reads the JSON of a quant_state. `name` is used in errors. Fails with data_loss for a damaged
  // one, and with unimplemented for other types of numbers.
  static Bits4Form of(const Json& state, const std::string& name);
  Json to_json() const;

  // A tensor of the matrix. Its name is the name of the matrix with `ending`.
  struct Part {
    const char* ending;
    DType dtype;
    Shape shape;
  };
  // Returns all tensors but the state: the matrix itself, absmax, quant_map, and with codes
  // nested_absmax and nested_quant_map.
  std::vector<Part> parts() const;
  // Returns the end of the name of the state.
  std::string state_ending() const;
  // Returns true when rows are whole blocks of 64, so that blocks of `format` hold the same
  // numbers.
  bool has_block_rows() const;

  const WeightFormat* format = nullptr; // WeightFormat::bitsandbytes is not null
  int64_t block = 64;
  Shape shape;
  // Double quantization.
  bool has_codes = false;
  int64_t group = 256;
  float offset = 0; // of the scales
};

// A part of one matrix in a file.
class Bits4Matrix {
public:
  // Returns a part of a tensor. ending: as in Bits4Form::Part.
  using Read = std::function<Tensor(const char* ending, const Box& box)>;
  // Reads the bytes that `box` of the matrix needs, and the scales of all blocks. Fails with
  // unimplemented for other levels than the ones of the format. REQUIRES: the tensors have the
  // types and shapes of form.parts().
  Bits4Matrix(const Bits4Form& form, const std::string& name, const Box& box, const Read& read);

  // Writes the part in blocks of the format. REQUIRES: has_block_rows(), and the part begins and
  // ends between blocks.
  void read_blocks(std::byte* to, const Task* task) const;
  // Writes the part as f32.
  void read_numbers(float* to, const Task* task) const;

private:
  int level(int64_t i) const; // of number i of the whole matrix
  float top(int64_t block) const;

  Bits4Form form_;
  Box box_;
  int64_t first_pair_ = 0;
  Tensor pairs_, tops_, groups_, map_;
};

} // namespace dllm::ckpt

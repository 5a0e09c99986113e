#pragma once
// The 4-bit matrices of bitsandbytes (QLoRA, Dettmers et al. 2023; files of version 0.50). Numbers
// of a matrix are counted over all rows. Each block of 64 has a scale, its largest |x|. A byte has
// two neighbouring numbers, the first one in its high half. Scales are f32, or codes of 8 bits with
// a scale for 256 of them (double quantization).

#include "base/json.h"
#include "base/task.h"
#include "tensor/box.h"
#include "tensor/tensor.h"
#include "tensor/weight_format.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dllm::ckpt {

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
};
// format: nf4 or fp4. The last block, and the last pair, may be short.
Bits4Codes bits4_codes(const WeightFormat& format, std::span<const float> numbers, int64_t block);
// Returns the 16 levels of nf4 or fp4.
std::span<const float, 16> bits4_levels(const WeightFormat& format);

// One matrix in a file.
class Bits4Matrix {
public:
  struct Form {
    const WeightFormat* format = nullptr; // nf4 or fp4
    int64_t block = 64;
    Shape shape;
    // Double quantization.
    bool has_codes = false;
    int64_t group = 256;
    float offset = 0; // of the scales
  };
  // Reads the JSON of a quant_state. `name` is used in errors. Fails with data_loss for a damaged
  // one, and with unimplemented for other types of numbers.
  static Form form_of(const Json& state, const std::string& name);

  // pairs: u8(bytes, 1). tops: f32 scales of blocks, or u8 codes of them with `groups`, f32.
  // levels: of numbers; map: of codes. Fails with data_loss when the sizes do not fit.
  Bits4Matrix(Form form, std::string name, Tensor pairs, Tensor tops, Tensor groups,
              const Tensor& levels, const Tensor& map);

  const Form& form() const { return form_; }
  // Returns true when rows are whole blocks of 64, so that blocks of `format` hold the same
  // numbers.
  bool has_block_rows() const;
  // Writes a part of the matrix in blocks of form().format. REQUIRES: has_block_rows(), and the
  // part begins and ends between blocks.
  void read_blocks(const Box& box, std::byte* to, const Task* task) const;
  // Writes a part of the matrix as f32.
  void read_numbers(const Box& box, float* to, const Task* task) const;

private:
  int level(int64_t i) const; // of number i
  float top(int64_t block) const;

  Form form_;
  std::string name_;
  Tensor pairs_, tops_, groups_;
  std::vector<float> map_;
};

} // namespace dllm::ckpt

#pragma once
// Matrices of 8 bits with scales, as transformers ("fp8") and compressed-tensors write them. The
// numbers of "<module>.weight" are e4m3 or int8. A scale in "<module>.weight_scale", or
// "<module>.weight_scale_inv", multiplies the numbers of the whole matrix, a row, or a block.

#include "base/json.h"
#include "base/task.h"
#include "ckpt/safetensors/safetensors.h"
#include "tensor/box.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dllm::ckpt {

// Returns the number of a byte of e4m3: 4 bits of exponent, 3 of mantissa, no infinity (OCP 8-bit
// floating point, 2023; "e4m3fn").
float e4m3_to_f32(uint8_t byte);

// How one matrix is stored.
struct ScaledForm {
  Shape shape; // (out, in)
  bool is_e4m3 = true;
  std::string scales;            // name of their tensor
  int64_t height = 0, width = 0; // numbers of a block with one scale; the last block may be short

  // Returns true for int8 with one scale for all numbers of a row.
  bool has_row_scales() const { return !is_e4m3 && width == shape.dim(1); }
  Shape scale_grid() const {
    return {(shape.dim(0) + height - 1) / height, (shape.dim(1) + width - 1) / width};
  }
};

// The matrices of a folder that have scales, by name.
class ScaledForms {
public:
  // quantization: "quantization_config" of config.json, which has the size of blocks, or null.
  // Fails with unimplemented for numbers with zero points, and with data_loss for scales whose
  // number does not fit the matrix.
  ScaledForms(const WeightFiles& files, const Json& quantization, const std::string& where);

  bool empty() const { return forms_.empty(); }
  // Returns null for a tensor without scales.
  const ScaledForm* find(const std::string& name) const;
  // Returns true for scales of weights, and for scales of activations, which are not used.
  bool owns(std::string_view name) const;

private:
  void add(const WeightFiles& files, const std::string& scales, const Json& quantization,
           const std::string& where);

  std::map<std::string, ScaledForm, std::less<>> forms_;
};

// A part of one matrix in memory.
class ScaledMatrix {
public:
  ScaledMatrix(const WeightFiles& files, const std::string& name, const ScaledForm& form,
               const Box& box, const Task* task);

  // Writes the part as f32: number * scale, rounded once.
  void read_numbers(float* to, const Task* task) const;
  // Return the part in int8, and a scale for each of its rows. REQUIRES: form.has_row_scales()
  Tensor values() const;
  Tensor row_scales() const;

private:
  float scale(int64_t row, int64_t column) const; // of a number of the whole matrix

  ScaledForm form_;
  Box box_;
  Tensor bytes_, scales_;
};

} // namespace dllm::ckpt

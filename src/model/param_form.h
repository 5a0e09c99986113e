#pragma once
// The host side of one physical parameter in the form it will be kept in: f32, bf16, or int8 with a
// scale per row.

#include "model/param_map.h"

namespace dllm::model {

struct ParamForm {
  ParamForm(const ParamSpec& spec, DType dtype);

  Tensor values;       // spec.shape(), in dtype
  Tensor scale;        // f32: values' shape without the last axis; int8 only
  double rounding = 0; // int8: largest |stored - wanted| / largest |wanted| so far, over rows

  // Where the numbers of one logical tensor lie when they lie as in the tensor itself and in
  // values' type; null when put() has to turn or round them.
  std::byte* place(const ParamSpec& spec, size_t piece, int64_t layer);
  // Puts one logical tensor (any float type) into its place.
  void put(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
           const Task* task = nullptr);
};

// int8 and scales back to f32.
Tensor dequantize(const Tensor& values, const Tensor& scale, const Task* task = nullptr);
// What forms a role may take: norms and biases are always f32, int8 is for matrices and tables.
DType storage_dtype(ParamRole role, DType wanted);

} // namespace dllm::model

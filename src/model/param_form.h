#pragma once
// The host side of one physical parameter in the weight format it will be kept in.

#include "model/param_map.h"
#include "tensor/weight_format.h"

namespace dllm::model {

struct ParamForm {
  ParamForm(const ParamSpec& spec, const WeightFormat& format);
  ParamForm(const ParamSpec& spec, DType dtype) : ParamForm(spec, weight_format(dtype)) {}

  const WeightFormat* format;
  Tensor values; // stored_shape(*format, spec.shape())
  Tensor scale;  // f32(spec.shape() without the last axis); formats with ScalePlace::row_array
  double rounding =
      0; // quantized: largest |stored - wanted| / largest |wanted| so far, over rows or blocks

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

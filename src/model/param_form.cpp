#include "model/param_form.h"

#include "base/task.h"

#include <algorithm>

namespace dllm::model {

const WeightFormat& storage_format(const ParamSpec& spec, const WeightFormat& wanted) {
  const WeightFormat& plain = weight_format(DType::f32);
  if (is_vector(spec.role) || spec.role == ParamRole::router || spec.role == ParamRole::adapter)
    return plain;
  const bool quantized = wanted.scales != ScalePlace::none || wanted.is_blocks();
  if (spec.role == ParamRole::positions && quantized) return plain;
  const int64_t width = spec.element.dim(-1);
  if (wanted.fits(width)) return wanted;
  // Rows that are no whole blocks of 256 often are whole blocks of 32.
  const WeightFormat& smaller = weight_format("q8_0");
  return wanted.block > smaller.block && smaller.fits(width) ? smaller : plain;
}

ParamForm::ParamForm(const ParamSpec& spec, const WeightFormat& own)
    : format(&own), values(own.element, stored_shape(own, spec.shape())) {
  if (own.is_blocks()) values.set_format(&own);
  if (own.scales == ScalePlace::row_array) scale = Tensor(DType::f32, spec.shape().without(-1));
}

std::byte* ParamForm::place(const ParamSpec& spec, size_t piece, int64_t layer) {
  if (format->scales == ScalePlace::row_array || spec.pieces[piece].transpose) return nullptr;
  const int64_t begin = piece_begin(spec, piece, layer); // of a row: whole blocks
  return values.mutable_bytes() + begin / format->block * format->block_bytes;
}

void ParamForm::put(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
                    const Task* task) {
  if (!format->is_blocks() && format->scales == ScalePlace::none)
    return write_piece(spec, piece, layer, logical, values, task);
  // The rows of one piece, in physical order, as f32.
  const int64_t width = spec.element[-1];
  const int64_t deep = spec.element.count() / spec.element[0] / width; // rows of one expert, or 1
  ParamSpec own = spec;
  own.layers = 0;
  own.first_layer = spec.first_layer + layer;
  own.element = Shape{spec.pieces[piece].rows * deep, width};
  own.pieces = {spec.pieces[piece]};
  own.pieces[0].rows = own.element[0];
  Tensor rows(DType::f32, own.element);
  write_piece(own, 0, 0, logical, rows, task);

  int64_t first = layer * spec.element[0] * deep;
  for (size_t i = 0; i < piece; ++i) first += spec.pieces[i].rows * deep;
  const int64_t bytes = format->row_bytes(width);
  std::byte* out = values.mutable_bytes() + first * bytes;
  float* scales = scale.defined() ? scale.mutable_as<float>().data() + first : nullptr;
  for (int64_t r = 0; r < own.element[0]; ++r) {
    check_task(task);
    const float* row = rows.as<float>().data() + r * width;
    const double error =
        format->quantize(row, width, out + r * bytes, scales == nullptr ? nullptr : scales + r);
    rounding = std::max(rounding, error);
  }
}

Tensor dequantize(const Tensor& values, const Tensor& scale, const Task* task) {
  if (values.format() == nullptr && values.dtype() != DType::i8) return values.to(DType::f32, task);
  const WeightFormat& format =
      values.format() != nullptr ? *values.format() : weight_format(values.dtype());
  Tensor wide(DType::f32, number_shape(values.format(), values.shape()));
  const int64_t width = wide.shape()[-1], bytes = format.row_bytes(width);
  float* to = wide.mutable_as<float>().data();
  const float* scales = scale.defined() ? scale.as<float>().data() : nullptr;
  const int64_t rows = width == 0 ? 0 : wide.count() / width;
  in_pieces(rows, std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, width)), task,
            [&](int64_t begin, int64_t end) {
              for (int64_t r = begin; r < end; ++r)
                format.dequantize(values.bytes() + r * bytes, scales == nullptr ? 1.0f : scales[r],
                                  width, to + r * width);
            });
  return wide;
}

} // namespace dllm::model

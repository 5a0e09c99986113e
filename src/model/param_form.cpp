#include "model/param_form.h"

#include "base/task.h"

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

// Symmetric, per output row: q = round(x / s), s = max|x| / 127. Returns the largest error over the
// row's largest value.
double quantize_row(std::span<const float> row, int8_t* out, float* scale) {
  float top = 0;
  for (const float value : row) top = std::max(top, std::abs(value));
  *scale = top > 0 ? top / 127.0f : 1.0f;
  double worst = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const float level = std::clamp(std::nearbyint(row[i] / *scale), -127.0f, 127.0f);
    out[i] = static_cast<int8_t>(level);
    worst = std::max(worst, std::abs(static_cast<double>(level) * *scale - row[i]));
  }
  return top > 0 ? worst / top : 0;
}

} // namespace

DType storage_dtype(ParamRole role, DType wanted) {
  if (is_vector(role) || role == ParamRole::router) return DType::f32;
  if (role == ParamRole::positions && wanted == DType::i8) return DType::f32;
  return wanted;
}

ParamForm::ParamForm(const ParamSpec& spec, DType dtype) : values(dtype, spec.shape()) {
  if (dtype == DType::i8) scale = Tensor(DType::f32, spec.shape().without(-1));
}

std::byte* ParamForm::place(const ParamSpec& spec, size_t piece, int64_t layer) {
  if (values.dtype() == DType::i8 || spec.pieces[piece].transpose) return nullptr;
  return values.mutable_bytes() + piece_begin(spec, piece, layer) * dtype_size(values.dtype());
}

void ParamForm::put(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& logical,
                    const Task* task) {
  if (values.dtype() != DType::i8) return write_piece(spec, piece, layer, logical, values, task);
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
  int8_t* out = reinterpret_cast<int8_t*>(values.mutable_bytes()) + first * width;
  float* scales = scale.mutable_as<float>().data() + first;
  for (int64_t r = 0; r < own.element[0]; ++r) {
    check_task(task);
    const auto row =
        rows.as<float>().subspan(static_cast<size_t>(r * width), static_cast<size_t>(width));
    rounding = std::max(rounding, quantize_row(row, out + r * width, scales + r));
  }
}

Tensor dequantize(const Tensor& values, const Tensor& scale, const Task* task) {
  Tensor wide(DType::f32, values.shape());
  const int64_t width = values.shape()[-1];
  const auto from = values.as<int8_t>();
  const auto scales = scale.as<float>();
  const auto to = wide.mutable_as<float>();
  in_pieces(values.count(), int64_t{1} << 18, task, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[static_cast<size_t>(i)] = static_cast<float>(from[static_cast<size_t>(i)]) *
                                   scales[static_cast<size_t>(i / width)];
    }
  });
  return wide;
}

} // namespace dllm::model

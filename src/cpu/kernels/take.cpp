// take: rows of a table (an embedding). bf16 and i8 tables and those in blocks are widened to f32,
// i8 times its row's scale.

#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"
#include "cpu/gemm/pack.h"

#include <algorithm>
#include <cstring>

namespace dllm::cpu {
namespace {

void copy_row(const float* row, float* to, int64_t width, float) {
  std::memcpy(to, row, static_cast<size_t>(width) * sizeof(float));
}
void copy_row(const uint8_t* row, uint8_t* to, int64_t width, float) {
  std::memcpy(to, row, static_cast<size_t>(width));
}
void copy_row(const uint16_t* row, float* to, int64_t width, float) {
  for (int64_t i = 0; i < width; ++i) to[i] = bf16_to_f32(row[i]);
}
void copy_row(const int8_t* row, float* to, int64_t width, float scale) {
  for (int64_t i = 0; i < width; ++i) to[i] = static_cast<float>(row[i]) * scale;
}

// table (n, width) T -> (m, width) R
template <class T, class R> Kernel make(const CompileInfo& info) {
  const int64_t n = info.input(0).shape.dim(0), m = info.input(1).shape.count();
  const int64_t width = n == 0 ? 0 : info.input(0).shape.count() / n;
  const bool has_scale = info.node.attributes.flag("has_scale");
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    split(call.pool, m, grain_of(width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t index = std::clamp<int64_t>(call.inputs[1].in<int32_t>()[i], 0, n - 1);
        const float scale = has_scale ? call.inputs[2].in<float>()[index] : 1.0f;
        copy_row(call.inputs[0].in<T>() + index * width, call.outputs[0].out<R>() + i * width,
                 width, scale);
      }
    });
  };
  return kernel;
}

// A table in blocks is read where its product reads it: kept packed, there is no second form.
Kernel make_blocks(const CompileInfo& info) {
  const graph::ValueType& table = info.input(0);
  const WeightFormat& format = *table.format;
  const int64_t n = table.shape.dim(0), m = info.input(1).shape.count();
  const int64_t width = table.numbers().dim(-1), row_bytes = format.row_bytes(width);
  const bool kept = !info.keeps_forms.empty() && info.keeps_forms[0];
  Kernel kernel;
  kernel.wants = {kept ? kPacked : kPlain, kPlain};
  kernel.run = [=, &format](const KernelCall& call) {
    const Operand& rows = call.inputs[0];
    split(call.pool, m, grain_of(4 * width), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t index = std::clamp<int64_t>(call.inputs[1].in<int32_t>()[i], 0, n - 1);
        float* to = call.outputs[0].out<float>() + i * width;
        if (rows.packed != nullptr)
          packed_row(format, rows.packed, width, index, to);
        else
          format.dequantize(rows.data + index * row_bytes, 1.0f, width, to);
      }
    });
  };
  return kernel;
}

} // namespace

Kernel make_take(const CompileInfo& info) {
  if (info.input(0).format != nullptr) return make_blocks(info);
  switch (info.input(0).dtype) {
  case DType::bf16: return make<uint16_t, float>(info);
  case DType::i8: return make<int8_t, float>(info);
  case DType::u8: return make<uint8_t, uint8_t>(info);
  default: return make<float, float>(info); // f32, i32, u32: four bytes moved as they are
  }
}

} // namespace dllm::cpu

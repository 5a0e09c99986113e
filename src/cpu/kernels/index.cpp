// Operations over rows by index: take, scatter_add and scatter_set.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "cpu/kernels/strides.h"

#include <algorithm>
#include <cstring>

namespace dllm::cpu {
namespace {

// take reads rows of a table, such as an embedding. Tables of bf16, i8 or blocks are widened to
// f32; rows of i8 are multiplied by the scale of the row.

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

// table (n, width) of type T, indices (m) -> (m, width) of type R
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

// Makes take for a table in blocks. A table that is kept packed is read from its panels, so it
// needs no second form.
Kernel make_blocks(const CompileInfo& info) {
  const graph::ValueType& table = info.input(0);
  const WeightFormat& format = *table.format;
  const int64_t n = table.shape.dim(0), m = info.input(1).shape.count();
  const int64_t width = table.numbers().dim(-1), row_bytes = format.row_bytes(width);
  const PanelForm panels = panel_form(info.arithmetic, table.dtype, table.format, width, false);
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
          packed_row(panels, rows.packed, width, index, to);
        else
          format.dequantize(rows.data + index * row_bytes, nullptr, width, to);
      }
    });
  };
  return kernel;
}

Kernel make_take(const CompileInfo& info) {
  if (info.input(0).format != nullptr) return make_blocks(info);
  switch (info.input(0).dtype) {
  case DType::bf16: return make<uint16_t, float>(info);
  case DType::i8: return make<int8_t, float>(info);
  case DType::u8: return make<uint8_t, uint8_t>(info);
  default: return make<float, float>(info); // f32, i32 and u32 are copied as four bytes
  }
}

// scatter_add and scatter_set write rows of the first axis in the order of the indices. Each chunk
// has a range of the destination's rows and goes through all indices, so the order of additions
// does not depend on the threads.

struct RowShape {
  int64_t n, m, row_bytes;
};

RowShape rows_of(const CompileInfo& info) {
  const Shape& shape = info.output(0).shape;
  const int64_t n = shape.dim(0);
  const int64_t width = n == 0 ? 0 : shape.count() / n;
  return {n, info.input(1).shape.count(), width * dtype_size(info.output(0).dtype)};
}

template <class Join> Kernel make_scatter_of(const RowShape& rows, Join join) {
  Kernel kernel;
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    std::byte* y = call.outputs[0].data;
    if (y != call.inputs[0].data)
      parallel_copy(y, call.inputs[0].data, rows.n * rows.row_bytes, call.pool);
    const int32_t* indices = call.inputs[1].in<int32_t>();
    const int64_t work = rows.n == 0 ? 0 : rows.m * rows.row_bytes / rows.n;
    split(call.pool, rows.n, grain_of(work / 4), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < rows.m; ++i) {
        if (indices[i] < begin || indices[i] >= end) continue;
        join(y + indices[i] * rows.row_bytes, call.inputs[2].data + i * rows.row_bytes);
      }
    });
  };
  return kernel;
}

template <class T> Kernel make_add(const RowShape& rows) {
  const int64_t width = rows.row_bytes / static_cast<int64_t>(sizeof(T));
  return make_scatter_of(rows, [width](std::byte* to, const std::byte* from) {
    T* y = reinterpret_cast<T*>(to);
    const T* x = reinterpret_cast<const T*>(from);
    for (int64_t i = 0; i < width; ++i) y[i] = y[i] + x[i];
  });
}

Kernel make_scatter_add(const CompileInfo& info) {
  // Integers are added as unsigned numbers, so they wrap.
  return info.output(0).dtype == DType::i32 ? make_add<uint32_t>(rows_of(info))
                                            : make_add<float>(rows_of(info));
}

Kernel make_scatter_set(const CompileInfo& info) {
  const RowShape rows = rows_of(info);
  return make_scatter_of(rows, [bytes = rows.row_bytes](std::byte* to, const std::byte* from) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  });
}

constexpr KernelEntry kIndexKernels[] = {
    {"scatter_add", make_scatter_add},
    {"scatter_set", make_scatter_set},
    {"take", make_take},
};

} // namespace

KernelList index_kernels() {
  return kIndexKernels;
}

} // namespace dllm::cpu

// scatter_add and scatter_set: rows of the first axis, in the order of the indices. Each thread
// owns a range of the destination's rows and walks all indices, so the order of additions never
// depends on the threads.

#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"
#include "cpu/kernels/strided_copy.h"

#include <cstring>

namespace dllm::cpu {
namespace {

struct Rows {
  int64_t n, m, row_bytes;
};

Rows rows_of(const CompileInfo& info) {
  const Shape& shape = info.output(0).shape;
  const int64_t n = shape.dim(0);
  const int64_t width = n == 0 ? 0 : shape.count() / n;
  return {n, info.input(1).shape.count(), width * dtype_size(info.output(0).dtype)};
}

template <class Join> Kernel make(const Rows& rows, Join join) {
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

template <class T> Kernel make_add(const Rows& rows) {
  const int64_t width = rows.row_bytes / static_cast<int64_t>(sizeof(T));
  return make(rows, [width](std::byte* to, const std::byte* from) {
    T* y = reinterpret_cast<T*>(to);
    const T* x = reinterpret_cast<const T*>(from);
    for (int64_t i = 0; i < width; ++i) y[i] = y[i] + x[i];
  });
}

} // namespace

Kernel make_scatter_add(const CompileInfo& info) {
  // Integers are added as unsigned: they wrap.
  return info.output(0).dtype == DType::i32 ? make_add<uint32_t>(rows_of(info))
                                            : make_add<float>(rows_of(info));
}

Kernel make_scatter_set(const CompileInfo& info) {
  const Rows rows = rows_of(info);
  return make(rows, [bytes = rows.row_bytes](std::byte* to, const std::byte* from) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  });
}

} // namespace dllm::cpu

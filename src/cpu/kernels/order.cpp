// top_k and sort along the last axis. Order: larger (or smaller) value first, then lower index; NaN
// counts as largest.

#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"

#include <algorithm>
#include <numeric>

namespace dllm::cpu {
namespace {

template <class T> bool greater_value(T x, T y) {
  if (y != y) return false;
  return x != x || x > y;
}

template <class Number> struct LargestFirst {
  using T = Number;
  const T* x;
  bool operator()(int32_t a, int32_t b) const {
    return greater_value(x[a], x[b]) || (!greater_value(x[b], x[a]) && a < b);
  }
};
template <class Number> struct SmallestFirst {
  using T = Number;
  const T* x;
  bool operator()(int32_t a, int32_t b) const {
    return greater_value(x[b], x[a]) || (!greater_value(x[a], x[b]) && a < b);
  }
};

// The first `kept` of every row of `length`, in order. Each chunk of rows has its own index row in
// the scratch.
template <class Before> Kernel make_ordered(const CompileInfo& info, int64_t kept) {
  using T = typename Before::T;
  const int64_t length = info.input(0).shape.dim(-1);
  const int64_t rows = length == 0 ? 0 : info.input(0).shape.count() / length;
  const int64_t slots = std::clamp<int64_t>(rows, 1, 4 * info.threads);
  Kernel kernel;
  kernel.scratch_bytes = slots * length * static_cast<int64_t>(sizeof(int32_t));
  kernel.run = [=](const KernelCall& call) {
    parallel(call.pool, slots, [&](int64_t slot) {
      int32_t* index = reinterpret_cast<int32_t*>(call.scratch) + slot * length;
      for (int64_t row = rows * slot / slots; row < rows * (slot + 1) / slots; ++row) {
        call.pool.check();
        const T* x = call.inputs[0].in<T>() + row * length;
        std::iota(index, index + length, 0);
        if (kept == length)
          std::sort(index, index + length, Before{x});
        else
          std::partial_sort(index, index + kept, index + length, Before{x});
        T* values = call.outputs[0].out<T>() + row * kept;
        for (int64_t i = 0; i < kept; ++i) values[i] = x[index[i]];
        std::copy(index, index + kept, call.outputs[1].out<int32_t>() + row * kept);
      }
    });
  };
  return kernel;
}

template <class T> Kernel make_sort_of(const CompileInfo& info) {
  const int64_t length = info.input(0).shape.dim(-1);
  return info.node.attributes.flag("descending") ? make_ordered<LargestFirst<T>>(info, length)
                                                 : make_ordered<SmallestFirst<T>>(info, length);
}

} // namespace

Kernel make_top_k(const CompileInfo& info) {
  return make_ordered<LargestFirst<float>>(info, info.node.attributes.integer("k"));
}

Kernel make_sort(const CompileInfo& info) {
  return info.input(0).dtype == DType::i32 ? make_sort_of<int32_t>(info)
                                           : make_sort_of<float>(info);
}

} // namespace dllm::cpu

// Operations along an axis: top_k, sort, argmax, cumsum and take_along.

#include "cpu/kernel.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace dllm::cpu {
namespace {

// top_k and sort order the last axis. The larger value comes first (the smaller one in ascending
// order), then the lower index. NaN counts as the largest value.

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

// Makes a kernel that writes the first `kept` elements of every row in order. Each chunk of rows
// has its own row of indices in the scratch.
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

Kernel make_top_k(const CompileInfo& info) {
  return make_ordered<LargestFirst<float>>(info, info.node.attributes.integer("k"));
}

Kernel make_sort(const CompileInfo& info) {
  return info.input(0).dtype == DType::i32 ? make_sort_of<int32_t>(info)
                                           : make_sort_of<float>(info);
}

// argmax, cumsum and take_along go once along an axis of (outer, length, inner).

struct Lines {
  int64_t outer = 1, length = 1, inner = 1;
  int64_t count() const { return outer * inner; }
  int64_t start(int64_t line) const { return line / inner * length * inner + line % inner; }
};

Lines lines_of(const Shape& shape, int64_t axis) {
  Lines lines;
  for (int64_t a = 0; a < shape.rank(); ++a) {
    (a < axis ? lines.outer : a == axis ? lines.length : lines.inner) *= shape.dim(a);
  }
  return lines;
}

// Returns true if x is larger than the best so far, or is the first NaN.
template <class T> bool beats(T x, T best) {
  return x > best || (x != x && best == best);
}

template <class T> Kernel make_argmax_of(const Lines& lines) {
  Kernel kernel;
  kernel.run = [lines](const KernelCall& call) {
    split(call.pool, lines.count(), grain_of(lines.length), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const T* x = call.inputs[0].in<T>() + lines.start(line);
        int64_t best = 0;
        for (int64_t i = 1; i < lines.length; ++i) {
          if (beats(x[i * lines.inner], x[best * lines.inner])) best = i;
        }
        call.outputs[0].out<int32_t>()[line] = static_cast<int32_t>(best);
      }
    });
  };
  return kernel;
}

template <class T> Kernel make_cumsum_of(const Lines& lines) {
  Kernel kernel;
  kernel.run = [lines](const KernelCall& call) {
    split(call.pool, lines.count(), grain_of(2 * lines.length), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t start = lines.start(line);
        const T* x = call.inputs[0].in<T>() + start;
        T* y = call.outputs[0].out<T>() + start;
        T sum{0};
        for (int64_t i = 0; i < lines.length; ++i) {
          const T next = x[i * lines.inner];
          if constexpr (std::is_integral_v<T>)
            sum = static_cast<T>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(next));
          else
            sum += next;
          y[i * lines.inner] = sum;
        }
      }
    });
  };
  return kernel;
}

Kernel make_argmax(const CompileInfo& info) {
  const Lines lines = lines_of(info.input(0).shape, info.node.attributes.integer("axis"));
  return info.input(0).dtype == DType::i32 ? make_argmax_of<int32_t>(lines)
                                           : make_argmax_of<float>(lines);
}

Kernel make_cumsum(const CompileInfo& info) {
  const Lines lines = lines_of(info.input(0).shape, info.node.attributes.integer("axis"));
  return info.input(0).dtype == DType::i32 ? make_cumsum_of<int32_t>(lines)
                                           : make_cumsum_of<float>(lines);
}

Kernel make_take_along(const CompileInfo& info) {
  const int64_t axis = info.node.attributes.integer("axis");
  const Lines from = lines_of(info.input(0).shape, axis), to = lines_of(info.output(0).shape, axis);
  const int64_t size = dtype_size(info.output(0).dtype), count = info.output(0).shape.count();
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    split(call.pool, count, grain_of(8), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t outer = i / (to.length * to.inner), inner = i % to.inner;
        const int64_t index =
            std::clamp<int64_t>(call.inputs[1].in<int32_t>()[i], 0, from.length - 1);
        const int64_t source = (outer * from.length + index) * from.inner + inner;
        std::memcpy(call.outputs[0].data + i * size, call.inputs[0].data + source * size,
                    static_cast<size_t>(size));
      }
    });
  };
  return kernel;
}

constexpr KernelEntry kOrderKernels[] = {
    {"argmax", make_argmax},         {"cumsum", make_cumsum}, {"sort", make_sort},
    {"take_along", make_take_along}, {"top_k", make_top_k},
};

} // namespace

KernelList order_kernels() {
  return kOrderKernels;
}

} // namespace dllm::cpu

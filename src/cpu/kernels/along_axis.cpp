// argmax, cumsum and take_along: one pass along an axis of (outer, length, inner).

#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"

#include <algorithm>
#include <cstring>

namespace dllm::cpu {
namespace {

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

// True when x comes before the best so far: larger, or the first NaN.
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

} // namespace

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

} // namespace dllm::cpu

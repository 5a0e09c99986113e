// Views, iota and random bits.

#include "base/random.h"
#include "cpu/kernel.h"
#include "cpu/simd/random.h"
#include "graph/op.h"

#include <algorithm>

namespace dllm::cpu {
namespace {

// reshape, bitcast, stop_gradient, barrier and vary return their operand.
Kernel make_view(const CompileInfo&) {
  return view_kernel();
}

Kernel make_iota(const CompileInfo& info) {
  const Shape& shape = info.output(0).shape;
  const int64_t axis = info.node.attributes.integer("axis"), extent = shape.dim(axis),
                count = shape.count();
  int64_t inner = 1;
  for (int64_t a = axis + 1; a < shape.rank(); ++a) inner *= shape.dim(a);
  const bool floating = info.output(0).dtype == DType::f32;
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    split(call.pool, count, grain_of(4), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / inner % extent;
        if (floating)
          call.outputs[0].out<float>()[i] = static_cast<float>(at);
        else
          call.outputs[0].out<int32_t>()[i] = static_cast<int32_t>(at);
      }
    });
  };
  return kernel;
}

// Element i of random_bits depends only on the key and i. With a key for each row, i counts from 0
// in every row.

Kernel make_random_bits(const CompileInfo& info) {
  const int64_t count = info.output(0).shape.count(), keys = info.input(0).shape.count() / 2,
                width = count / std::max<int64_t>(keys, 1);
  Kernel kernel;
  kernel.run = [count, width](const KernelCall& call) {
    const uint32_t* words = call.inputs[0].in<uint32_t>();
    uint32_t* y = call.outputs[0].out<uint32_t>();
    split(call.pool, count, grain_of(6), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t row = begin / width, stop = std::min(end, (row + 1) * width);
        random_words({words[2 * row], words[2 * row + 1]}, static_cast<uint64_t>(begin % width),
                     y + begin, stop - begin);
        begin = stop;
      }
    });
  };
  return kernel;
}

constexpr KernelEntry kGenerateKernels[] = {
    {"barrier", make_view}, {"bitcast", make_view},
    {"iota", make_iota},    {"random_bits", make_random_bits},
    {"reshape", make_view}, {"stop_gradient", make_view},
    {"vary", make_view},
};

} // namespace

KernelList generate_kernels() {
  return kGenerateKernels;
}

} // namespace dllm::cpu

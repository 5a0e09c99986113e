// Operations whose result is their operand, and those that make values out of nothing.

#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"
#include "graph/op.h"

namespace dllm::cpu {

// reshape, bitcast, stop_gradient, barrier, vary.
Kernel make_view(const CompileInfo&) {
  Kernel kernel;
  kernel.is_view = true;
  return kernel;
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

} // namespace dllm::cpu

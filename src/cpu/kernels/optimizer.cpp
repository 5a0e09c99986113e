// Kernels of optimizers.

#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

namespace dllm::cpu {
namespace {

// parameter, gradient, first, second, scalars f32(8) -> parameter, first, second. It works in place
// when the inputs may be overwritten.
Kernel make_adamw_update(const CompileInfo& info) {
  const bool decay = info.node.attributes.flag("decay");
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.may_overwrite = {0, 2, 3};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* values = call.inputs[4].in<float>();
    AdamWScalars scalars{values[0], values[1], values[2], values[3],
                         values[4], values[5], values[6], values[7]};
    if (!decay) scalars.weight_decay = 0.0f;
    const auto in = [&](size_t i, int64_t begin) { return call.inputs[i].in<float>() + begin; };
    const auto out = [&](size_t i, int64_t begin) { return call.outputs[i].out<float>() + begin; };
    split(call.pool, count, grain_of(2), [&](int64_t begin, int64_t end) {
      math.adamw(in(0, begin), in(1, begin), in(2, begin), in(3, begin), scalars, end - begin,
                 out(0, begin), out(1, begin), out(2, begin));
    });
  };
  return kernel;
}

// Numbers that are added together. It is part of the meaning of the operation, because another
// value gives other bits.
constexpr int64_t kChunk = 65536;

Kernel make_sum_of_squares(const CompileInfo& info) {
  const int64_t count = info.input(0).shape.count();
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  ScratchLayout layout;
  const int64_t partial = layout.add_floats(chunks);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    float* sums = reinterpret_cast<float*>(call.scratch + partial);
    split(call.pool, chunks, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] = math.sum_of_squares(x + i * kChunk, std::min(kChunk, count - i * kChunk));
      }
    });
    double total = 0;
    for (int64_t i = 0; i < chunks; ++i) total += static_cast<double>(sums[i]);
    *call.outputs[0].out<float>() = static_cast<float>(total);
  };
  return kernel;
}

constexpr KernelEntry kOptimizerKernels[] = {
    {"adamw_update", make_adamw_update},
    {"sum_of_squares", make_sum_of_squares},
};

} // namespace

KernelList optimizer_kernels() {
  return kOptimizerKernels;
}

} // namespace dllm::cpu

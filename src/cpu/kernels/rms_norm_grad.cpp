#include "cpu/kernels/factories.h"
#include "cpu/kernels/row_sums.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {

// x, dy, [weight] -> dx, [dweight]
Kernel make_rms_norm_grad(const CompileInfo& info) {
  const bool has_weight = info.node.attributes.flag("has_weight");
  const float eps = static_cast<float>(info.node.attributes.number("eps"));
  const int64_t n = info.input(0).shape.dim(-1);
  const RowBlocks blocks(info.input(0).shape.count() / std::max<int64_t>(1, n));
  ScratchLayout layout;
  const int64_t partial = has_weight ? layout.add_floats(blocks.blocks() * n) : -1;

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* dy = call.inputs[1].in<float>();
    const float* weight = has_weight ? call.inputs[2].in<float>() : nullptr;
    float* sums = has_weight ? reinterpret_cast<float*>(call.scratch + partial) : nullptr;
    if (has_weight) std::fill_n(sums, blocks.blocks() * n, 0.0f);
    float* dx = call.outputs[0].out<float>();
    blocks.each(call.pool, [&](int64_t row, int64_t block) {
      math.rms_norm_grad(x + row * n, dy + row * n, weight, n, eps, dx + row * n,
                         has_weight ? sums + block * n : nullptr);
    });
    if (has_weight) blocks.add_up(sums, n, call.outputs[1].out<float>());
  };
  return kernel;
}

} // namespace dllm::cpu

#include "cpu/kernels/factories.h"
#include "cpu/kernels/row_sums.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {

// x, dy, [weight] -> dx, [dweight], [dbias]
Kernel make_layer_norm_grad(const CompileInfo& info) {
  const bool has_weight = info.node.attributes.flag("has_weight");
  const bool has_bias = info.node.attributes.flag("has_bias");
  const float eps = static_cast<float>(info.node.attributes.number("eps"));
  const int64_t n = info.input(0).shape.dim(-1);
  const RowBlocks blocks(info.input(0).shape.count() / std::max<int64_t>(1, n));
  const int64_t size = blocks.blocks() * n;
  ScratchLayout layout;
  const int64_t partial = layout.add_floats(2 * size);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* dy = call.inputs[1].in<float>();
    const float* weight = has_weight ? call.inputs[2].in<float>() : nullptr;
    float* dweight = reinterpret_cast<float*>(call.scratch + partial);
    float* dbias = dweight + size;
    std::fill_n(dweight, 2 * size, 0.0f);
    float* dx = call.outputs[0].out<float>();
    blocks.each(call.pool, [&](int64_t row, int64_t block) {
      math.layer_norm_grad(x + row * n, dy + row * n, weight, n, eps, dx + row * n,
                           dweight + block * n, dbias + block * n);
    });
    if (has_weight) blocks.add_up(dweight, n, call.outputs[1].out<float>());
    if (has_bias) blocks.add_up(dbias, n, call.outputs[has_weight ? 2 : 1].out<float>());
  };
  return kernel;
}

} // namespace dllm::cpu

#include "cpu/kernels/factories.h"
#include "cpu/kernels/weight.h"

namespace dllm::cpu {

// y (rows, out) = x (rows, in) w^T, times scale, plus bias.
Kernel make_linear(const CompileInfo& info) {
  const bool has_bias = info.node.attributes.flag("has_bias");
  const bool has_scale = info.node.attributes.flag("has_scale");
  ScratchLayout layout;
  const WeightOperand weight(info, 1, kPacked, layout);
  const int64_t rows = info.output(0).shape.count() / std::max<int64_t>(1, weight.out());

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants = {kPlain, weight.wants()};
  kernel.wants.resize(info.node.inputs.size(), kPlain);
  kernel.run = [=](const KernelCall& call) {
    Gemm gemm = weight.gemm(call);
    gemm.a = call.inputs[0].in<float>();
    gemm.a_stride = weight.in();
    gemm.c = call.outputs[0].out<float>();
    gemm.c_stride = weight.out();
    gemm.m = rows;
    if (has_bias) gemm.bias = call.inputs[2].in<float>();
    if (has_scale) gemm.scale = call.inputs[has_bias ? 3 : 2].in<float>();
    gemm_parallel(gemm, call.pool);
  };
  return kernel;
}

} // namespace dllm::cpu

#include "cpu/kernels/factories.h"
#include "cpu/kernels/weight.h"

namespace dllm::cpu {

// dx (rows, in) = (dy * scale) (rows, out) w
Kernel make_linear_input_grad(const CompileInfo& info) {
  const bool has_scale = info.node.attributes.flag("has_scale");
  ScratchLayout layout;
  const WeightOperand weight(info, 1, kPackedTransposed, layout);
  const int64_t out = weight.out();
  const int64_t rows = info.input(0).shape.count() / std::max<int64_t>(1, out);
  const int64_t scaled = has_scale ? layout.add_floats(rows * out) : -1;

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants = {kPlain, weight.wants()};
  kernel.wants.resize(info.node.inputs.size(), kPlain);
  kernel.run = [=](const KernelCall& call) {
    Gemm gemm = weight.gemm(call);
    gemm.a = call.inputs[0].in<float>();
    if (has_scale) {
      const float* dy = gemm.a;
      const float* scale = call.inputs[2].in<float>();
      float* to = reinterpret_cast<float*>(call.scratch + scaled);
      split(call.pool, rows, grain_of(out), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t j = 0; j < out; ++j) to[row * out + j] = dy[row * out + j] * scale[j];
        }
      });
      gemm.a = to;
    }
    gemm.a_stride = out;
    gemm.c = call.outputs[0].out<float>();
    gemm.c_stride = weight.in();
    gemm.m = rows;
    gemm_parallel(gemm, call.pool);
  };
  return kernel;
}

} // namespace dllm::cpu

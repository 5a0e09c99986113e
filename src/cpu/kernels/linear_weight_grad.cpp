#include "cpu/kernels/factories.h"
#include "cpu/kernels/weight.h"

namespace dllm::cpu {
namespace {

constexpr int64_t kBlock =
    1024; // rows packed at a time: bounds the scratch memory, changes no chain

} // namespace

// dw (out, in) = sum over rows, in order, of dy[row]^T x[row]
Kernel make_linear_weight_grad(const CompileInfo& info) {
  const int64_t out = info.output(0).shape.dim(0);
  const int64_t in = info.output(0).shape.dim(1);
  const int64_t rows = info.input(0).shape.count() / std::max<int64_t>(1, out);
  const int64_t block = std::min(rows, kBlock);
  ScratchLayout layout;
  const int64_t panels = layout.add(packed_bytes(in, block, DType::f32));

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const float* dy = call.inputs[0].in<float>();
    const float* x = call.inputs[1].in<float>();
    Gemm gemm;
    gemm.c = call.outputs[0].out<float>();
    if (rows == 0) std::fill_n(gemm.c, out * in, 0.0f);
    for (int64_t row = 0; row < rows; row += block) {
      const int64_t count = std::min(block, rows - row);
      pack_transposed(DType::f32, x + row * in, in, in, count, call.scratch + panels, call.pool);
      gemm.a = dy + row * out;
      gemm.a_stride = 1;
      gemm.a_step = out;
      gemm.b = call.scratch + panels;
      gemm.c_stride = in;
      gemm.m = out;
      gemm.n = in;
      gemm.k = count;
      gemm.accumulate = row > 0;
      gemm_parallel(gemm, call.pool);
    }
  };
  return kernel;
}

} // namespace dllm::cpu

#include "cpu/kernels/factories.h"
#include "cpu/kernels/weight.h"

namespace dllm::cpu {

// z (.., m, n) = x (.., m, k) y (.., k, n). Few large products share the threads; many small ones
// take one each.
Kernel make_dot(const CompileInfo& info) {
  const Shape& x_shape = info.input(0).shape;
  const int64_t m = x_shape.dim(-2), k = x_shape.dim(-1), n = info.output(0).shape.dim(-1);
  const int64_t batch = m * n == 0 ? 0 : info.output(0).shape.count() / (m * n);
  const int64_t slots = batch >= 2 * info.threads ? std::min<int64_t>(batch, 4 * info.threads) : 1;
  const int64_t panel_bytes = (packed_bytes(n, k, DType::f32) + 63) / 64 * 64;

  Kernel kernel;
  kernel.scratch_bytes = slots * panel_bytes;
  kernel.run = [=](const KernelCall& call) {
    const auto one = [&](int64_t index, std::byte* panels, const Workers& pool) {
      pack_transposed(DType::f32, call.inputs[1].in<float>() + index * k * n, n, n, k, panels,
                      pool);
      Gemm gemm;
      gemm.a = call.inputs[0].in<float>() + index * m * k;
      gemm.a_stride = k;
      gemm.b = panels;
      gemm.c = call.outputs[0].out<float>() + index * m * n;
      gemm.c_stride = n;
      gemm.m = m;
      gemm.n = n;
      gemm.k = k;
      gemm_parallel(gemm, pool);
    };
    if (slots == 1) {
      for (int64_t i = 0; i < batch; ++i) one(i, call.scratch, call.pool);
      return;
    }
    parallel(call.pool, slots, [&](int64_t slot) {
      for (int64_t i = batch * slot / slots; i < batch * (slot + 1) / slots; ++i) {
        one(i, call.scratch + slot * panel_bytes, call.pool.serial());
      }
    });
  };
  return kernel;
}

} // namespace dllm::cpu

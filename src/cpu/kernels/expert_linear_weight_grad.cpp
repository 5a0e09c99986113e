#include "cpu/kernels/expert_groups.h"
#include "cpu/kernels/factories.h"

namespace dllm::cpu {

// dw (experts, out, in): of each expert the sum over its pairs, in order, of dy[pair]^T x[row]
Kernel make_expert_linear_weight_grad(const CompileInfo& info) {
  const Shape& made = info.output(0).shape;
  const ExpertShape shape{info.input(1).shape.dim(0), info.input(1).shape.dim(1), made.dim(0)};
  const int64_t out = made.dim(1), in = made.dim(2);
  ScratchLayout layout;
  const int64_t groups_at = ExpertGroups::add(shape, layout);
  const int64_t gathered_x = layout.add_floats(shape.pairs() * in);
  const int64_t gathered_dy = layout.add_floats(shape.pairs() * out);
  const int64_t pair_bytes = packed_bytes(in, 1, DType::f32); // of one pair in the panels
  const int64_t packed = layout.add(shape.pairs() * pair_bytes);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const ExpertGroups groups(shape, call.inputs[1].in<int32_t>(), call.scratch + groups_at);
    float* dy = reinterpret_cast<float*>(call.scratch + gathered_dy);
    float* x = reinterpret_cast<float*>(call.scratch + gathered_x);
    groups.gather(call.inputs[0].in<float>(), out, 1, dy, call.pool);
    groups.gather(call.inputs[2].in<float>(), in, shape.choices, x, call.pool);
    float* dw = call.outputs[0].out<float>();
    for (int64_t e = 0; e < shape.experts; ++e) {
      call.pool.check();
      std::byte* panels = call.scratch + packed + groups.begin(e) * pair_bytes;
      if (groups.size(e) == 0)
        std::fill_n(dw + e * out * in, out * in, 0.0f);
      else
        pack_transposed(DType::f32, x + groups.begin(e) * in, in, in, groups.size(e), panels,
                        call.pool);
    }
    const double flops = 2.0 * static_cast<double>(shape.pairs() * in) * static_cast<double>(out);
    groups.each(call.pool, flops, panel_count(in), [&](int64_t e, int64_t first, int64_t last) {
      Gemm gemm;
      gemm.a = dy + groups.begin(e) * out; // its transpose
      gemm.a_stride = 1;
      gemm.a_step = out;
      gemm.b = call.scratch + packed + groups.begin(e) * pair_bytes;
      gemm.c = dw + e * out * in;
      gemm.c_stride = in;
      gemm.m = out;
      gemm.n = in;
      gemm.k = groups.size(e);
      gemm.task = call.pool.task;
      gemm_part(gemm, 0, gemm.m, first, last);
    });
  };
  return kernel;
}

} // namespace dllm::cpu

#include "cpu/kernels/expert_groups.h"
#include "cpu/kernels/factories.h"

namespace dllm::cpu {

// y (rows, choices, out) = x[row] (in) w[experts[row, choice]]^T, times scale. Each expert's rows
// are one product; a row is the same chain whichever rows share its group.
Kernel make_expert_linear(const CompileInfo& info) {
  const bool has_scale = info.node.attributes.flag("has_scale");
  ScratchLayout layout;
  const ExpertWeights weights(info, 2, kPacked, layout);
  const ExpertShape shape{info.input(1).shape.dim(0), info.input(1).shape.dim(1),
                          weights.experts()};
  const int64_t in = weights.in(), out = weights.out();
  const int64_t groups_at = ExpertGroups::add(shape, layout);
  const int64_t gathered = layout.add_floats(shape.pairs() * in);
  const int64_t results = layout.add_floats(shape.pairs() * out);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(info.node.inputs.size(), kPlain);
  kernel.wants[2] = weights.wants();
  kernel.run = [=](const KernelCall& call) {
    const ExpertGroups groups(shape, call.inputs[1].in<int32_t>(), call.scratch + groups_at);
    float* x = reinterpret_cast<float*>(call.scratch + gathered);
    float* sorted = reinterpret_cast<float*>(call.scratch + results);
    groups.gather(call.inputs[0].in<float>(), in, shape.choices, x, call.pool);
    const std::byte* panels = weights.panels(call, groups);
    const double flops = 2.0 * static_cast<double>(shape.pairs() * in) * static_cast<double>(out);
    groups.each(call.pool, flops, panel_count(out), [&](int64_t e, int64_t first, int64_t last) {
      Gemm gemm = weights.gemm(panels, e);
      gemm.a = x + groups.begin(e) * in;
      gemm.a_stride = in;
      gemm.c = sorted + groups.begin(e) * out;
      gemm.c_stride = out;
      gemm.m = groups.size(e);
      if (has_scale) gemm.scale = call.inputs[3].in<float>() + e * out;
      gemm.task = call.pool.task;
      gemm_part(gemm, 0, gemm.m, first, last);
    });
    float* y = call.outputs[0].out<float>();
    split(call.pool, shape.pairs(), grain_of(out), [&](int64_t begin, int64_t end) {
      for (int64_t pair = begin; pair < end; ++pair) {
        const int64_t place = groups.place(pair);
        if (place >= 0)
          std::copy_n(sorted + place * out, out, y + pair * out);
        else
          std::fill_n(y + pair * out, out, 0.0f);
      }
    });
  };
  return kernel;
}

} // namespace dllm::cpu

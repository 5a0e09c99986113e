#include "cpu/kernels/expert_groups.h"
#include "cpu/kernels/factories.h"
#include "cpu/kernels/rows.h"

namespace dllm::cpu {

// dx (rows, in) = sum over choices, in order, of (dy[row, choice] * scale) w[experts[row, choice]]
Kernel make_expert_linear_input_grad(const CompileInfo& info) {
  const bool has_scale = info.node.attributes.flag("has_scale");
  ScratchLayout layout;
  const ExpertWeights weights(info, 2, kPackedTransposed, layout);
  const ExpertShape shape{info.input(1).shape.dim(0), info.input(1).shape.dim(1),
                          weights.experts()};
  const int64_t in = weights.in(), out = weights.out();
  const int64_t groups_at = ExpertGroups::add(shape, layout);
  const int64_t gathered = layout.add_floats(shape.pairs() * out);
  const int64_t results = layout.add_floats(shape.pairs() * in);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(info.node.inputs.size(), kPlain);
  kernel.wants[2] = weights.wants();
  kernel.run = [=](const KernelCall& call) {
    const ExpertGroups groups(shape, call.inputs[1].in<int32_t>(), call.scratch + groups_at);
    float* dy = reinterpret_cast<float*>(call.scratch + gathered);
    float* sorted = reinterpret_cast<float*>(call.scratch + results);
    groups.gather(call.inputs[0].in<float>(), out, 1, dy, call.pool);
    if (has_scale) {
      const float* scale = call.inputs[3].in<float>();
      split(call.pool, shape.experts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; ++e) {
          for (int64_t row = groups.begin(e); row < groups.begin(e) + groups.size(e); ++row) {
            for (int64_t j = 0; j < out; ++j) dy[row * out + j] *= scale[e * out + j];
          }
        }
      });
    }
    const std::byte* panels = weights.panels(call, groups);
    const double flops = 2.0 * static_cast<double>(shape.pairs() * in) * static_cast<double>(out);
    groups.each(call.pool, flops, panel_count(in), [&](int64_t e, int64_t first, int64_t last) {
      Gemm gemm = weights.gemm(panels, e);
      gemm.a = dy + groups.begin(e) * out;
      gemm.a_stride = out;
      gemm.c = sorted + groups.begin(e) * in;
      gemm.c_stride = in;
      gemm.m = groups.size(e);
      gemm.task = call.pool.task;
      gemm_part(gemm, 0, gemm.m, first, last);
    });
    float* dx = call.outputs[0].out<float>();
    split(call.pool, shape.rows, grain_of(in * shape.choices), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::fill_n(dx + row * in, in, 0.0f);
        for (int64_t choice = 0; choice < shape.choices; ++choice) {
          const int64_t place = groups.place(row * shape.choices + choice);
          if (place >= 0) rows().add_to(sorted + place * in, in, dx + row * in);
        }
      }
    });
  };
  return kernel;
}

} // namespace dllm::cpu

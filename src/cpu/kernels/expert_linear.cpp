// Linear maps of experts. Each row is multiplied by the matrices of its chosen experts.

#include "cpu/kernel.h"
#include "cpu/kernels/expert_groups.h"
#include "cpu/kernels/rows/rows.h"

namespace dllm::cpu {
namespace {

// y (rows, choices, out) = x[row] (in) w[experts[row, choice]]^T, times scale. The rows of an
// expert are one product. The chain of a row does not depend on the other rows of its expert.
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
  const ExpertProducts products(weights, shape, layout);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(info.node.inputs.size(), kPlain);
  kernel.wants[2] = weights.wants();
  kernel.run = [=](const KernelCall& call) {
    const ExpertGroups groups(shape, call.inputs[1].in<int32_t>(), call.scratch + groups_at);
    float* x = reinterpret_cast<float*>(call.scratch + gathered);
    float* sorted = reinterpret_cast<float*>(call.scratch + results);
    groups.gather(call.inputs[0].in<float>(), in, shape.choices, x, call.pool);
    products.run(call, groups, x, has_scale ? call.inputs[3].in<float>() : nullptr, sorted);
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
  const ExpertProducts products(weights, shape, layout);

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
    products.run(call, groups, dy, nullptr, sorted);
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

// dw (experts, out, in) = for each expert, the sum over its pairs, in order, of dy[pair]^T x[row]
Kernel make_expert_linear_weight_grad(const CompileInfo& info) {
  const Shape& made = info.output(0).shape;
  const ExpertShape shape{info.input(1).shape.dim(0), info.input(1).shape.dim(1), made.dim(0)};
  const int64_t out = made.dim(1), in = made.dim(2);
  ScratchLayout layout;
  const int64_t groups_at = ExpertGroups::add(shape, layout);
  const int64_t gathered_x = layout.add_floats(shape.pairs() * in);
  const int64_t gathered_dy = layout.add_floats(shape.pairs() * out);
  const int64_t pair_bytes = packed_bytes(in, 1, DType::f32); // bytes of one pair in the panels
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

constexpr KernelEntry kExpertLinearKernels[] = {
    {"expert_linear", make_expert_linear},
    {"expert_linear_input_grad", make_expert_linear_input_grad},
    {"expert_linear_weight_grad", make_expert_linear_weight_grad},
};

} // namespace

KernelList expert_linear_kernels() {
  return kExpertLinearKernels;
}

} // namespace dllm::cpu

// Matrix products with a weight, their two gradients, and products of two values.

#include "cpu/kernel.h"
#include "cpu/kernels/weight.h"
#include "cpu/kernels/weight_grad.h"

namespace dllm::cpu {
namespace {

// y (rows, out) = x (rows, in) w^T, times scale, plus bias.
Kernel make_linear(const CompileInfo& info) {
  const bool has_bias = info.node.attributes.flag("has_bias");
  const bool has_scale = info.node.attributes.flag("has_scale");
  ScratchLayout layout;
  const int64_t rows =
      info.output(0).shape.count() / std::max<int64_t>(1, info.input(1).numbers().dim(0));
  const WeightOperand weight(info, 1, kPacked, rows, layout);

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
    gemm_parallel(gemm, call.pool, call.pause);
  };
  return kernel;
}

// dx (rows, in) = (dy * scale) (rows, out) w
Kernel make_linear_input_grad(const CompileInfo& info) {
  const bool has_scale = info.node.attributes.flag("has_scale");
  ScratchLayout layout;
  const int64_t out = info.input(1).numbers().dim(0);
  const int64_t rows = info.input(0).shape.count() / std::max<int64_t>(1, out);
  const WeightOperand weight(info, 1, kPackedTransposed, rows, layout);
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

// Rows that are packed at a time, an even number. It limits the scratch memory and changes no
// chain.
constexpr int64_t kBlock = 1024;

// dw (out, in) = sum over rows, in order, of dy[row]^T x[row]
Kernel make_linear_weight_grad(const CompileInfo& info) {
  const int64_t out = info.output(0).shape.dim(0);
  const int64_t in = info.output(0).shape.dim(1);
  const int64_t rows = info.input(0).shape.count() / std::max<int64_t>(1, out);
  const int64_t block = std::min(rows, kBlock);
  ScratchLayout layout;
  const WeightGradient gradient(info.arithmetic, block, out, in, layout);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const float* dy = call.inputs[0].in<float>();
    const float* x = call.inputs[1].in<float>();
    float* dw = call.outputs[0].out<float>();
    if (rows == 0) std::fill_n(dw, out * in, 0.0f);
    for (int64_t row = 0; row < rows; row += block) {
      const int64_t count = std::min(block, rows - row);
      gradient.set_rows(call, x + row * in, count);
      gradient.add(call, dy + row * out, out, count, out, dw, row > 0);
    }
  };
  return kernel;
}

// z (.., m, n) = x (.., m, k) y (.., k, n). Few products use all threads each. Many products run on
// one thread each.
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

constexpr KernelEntry kLinearKernels[] = {
    {"dot", make_dot},
    {"linear", make_linear},
    {"linear_input_grad", make_linear_input_grad},
    {"linear_weight_grad", make_linear_weight_grad},
};

} // namespace

KernelList linear_kernels() {
  return kLinearKernels;
}

} // namespace dllm::cpu

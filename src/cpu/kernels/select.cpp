// select(predicate, on_true, on_false) and clamp(low, x, high), elementwise.

#include "base/error.h"
#include "cpu/kernel.h"
#include "cpu/kernels/strides.h"

namespace dllm::cpu {
namespace {

// z = op(a, b, c), elementwise. The type A of a may differ from the type T of the others.
template <class A, class T, class Op> Kernel make_blend(const CompileInfo& info, Op op) {
  Kernel kernel;
  const Broadcasting layout(info, kernel);
  kernel.elementwise = true;
  kernel.run = [layout, op](const KernelCall& call) {
    split(call.pool, layout.count(), grain_of(2), [&](int64_t begin, int64_t end) {
      layout.for_each(begin, end, [&](int64_t out, const Broadcasting::In* in, int64_t count) {
        const A* a = call.inputs[0].in<A>() + in[0].offset;
        const T* b = call.inputs[1].in<T>() + in[1].offset;
        const T* c = call.inputs[2].in<T>() + in[2].offset;
        T* z = call.outputs[0].out<T>() + out;
        const int64_t a_step = in[0].step, b_step = in[1].step, c_step = in[2].step;
        for (int64_t i = 0; i < count; ++i) z[i] = op(a[i * a_step], b[i * b_step], c[i * c_step]);
      });
    });
  };
  return kernel;
}

template <class T> Kernel make_select_of(const CompileInfo& info) {
  return make_blend<uint8_t, T>(info, [](uint8_t p, T yes, T no) { return p != 0 ? yes : no; });
}

// min(max(x, low), high). The result is NaN if an operand is NaN.
template <class T> Kernel make_clamp_of(const CompileInfo& info) {
  return make_blend<T, T>(info, [](T low, T x, T high) {
    const T raised = x != x ? x : (low != low ? low : (x < low ? low : x));
    return raised != raised ? raised : (high != high ? high : (high < raised ? high : raised));
  });
}

Kernel make_select(const CompileInfo& info) {
  switch (dtype_size(info.output(0).dtype)) {
  case 1: return make_select_of<uint8_t>(info);
  case 2: return make_select_of<uint16_t>(info);
  default: return make_select_of<uint32_t>(info);
  }
}

Kernel make_clamp(const CompileInfo& info) {
  switch (info.output(0).dtype) {
  case DType::f32: return make_clamp_of<float>(info);
  case DType::i32: return make_clamp_of<int32_t>(info);
  case DType::u32: return make_clamp_of<uint32_t>(info);
  default: fail(Code::internal, "[clamp] has no kernel for {}", info.output(0).text());
  }
}

constexpr KernelEntry kSelectKernels[] = {
    {"clamp", make_clamp},
    {"select", make_select},
};

} // namespace

KernelList select_kernels() {
  return kSelectKernels;
}

} // namespace dllm::cpu

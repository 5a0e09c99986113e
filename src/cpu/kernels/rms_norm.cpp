#include "cpu/kernels/factories.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {

Kernel make_rms_norm(const CompileInfo& info) {
  const bool has_weight = info.node.attributes.flag("has_weight");
  const float eps = static_cast<float>(info.node.attributes.number("eps"));
  const int64_t n = info.input(0).shape.dim(-1);
  const int64_t count = info.input(0).shape.count() / std::max<int64_t>(1, n);
  Kernel kernel;
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* weight = has_weight ? call.inputs[1].in<float>() : nullptr;
    float* y = call.outputs[0].out<float>();
    split(call.pool, count, grain_of(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        math.rms_norm(x + row * n, weight, n, eps, y + row * n);
    });
  };
  return kernel;
}

} // namespace dllm::cpu

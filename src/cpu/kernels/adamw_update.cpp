#include "cpu/kernels/factories.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {

// parameter, gradient, first, second, scalars f32(8) -> parameter, first, second; in place when the
// executor allows.
Kernel make_adamw_update(const CompileInfo& info) {
  const bool decay = info.node.attributes.flag("decay");
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.may_overwrite = {0, 2, 3};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* values = call.inputs[4].in<float>();
    AdamWScalars scalars{values[0], values[1], values[2], values[3],
                         values[4], values[5], values[6], values[7]};
    if (!decay) scalars.weight_decay = 0.0f;
    const auto in = [&](size_t i, int64_t begin) { return call.inputs[i].in<float>() + begin; };
    const auto out = [&](size_t i, int64_t begin) { return call.outputs[i].out<float>() + begin; };
    split(call.pool, count, grain_of(2), [&](int64_t begin, int64_t end) {
      math.adamw(in(0, begin), in(1, begin), in(2, begin), in(3, begin), scalars, end - begin,
                 out(0, begin), out(1, begin), out(2, begin));
    });
  };
  return kernel;
}

} // namespace dllm::cpu

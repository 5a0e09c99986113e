#include "cpu/kernels/activation.h"
#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {

// gate, up, dy -> dgate, dup
Kernel make_gated_activation_grad(const CompileInfo& info) {
  const Activation kind = activation_from_name(info.node.attributes.text("kind"));
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.may_overwrite = {0, 1};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* gate = call.inputs[0].in<float>();
    const float* up = call.inputs[1].in<float>();
    const float* dy = call.inputs[2].in<float>();
    float* dgate = call.outputs[0].out<float>();
    float* dup = call.outputs[1].out<float>();
    split(call.pool, count, grain_of(6), [&](int64_t begin, int64_t end) {
      math.gated_grad(kind, gate + begin, up + begin, dy + begin, end - begin, dgate + begin,
                      dup + begin);
    });
  };
  return kernel;
}

} // namespace dllm::cpu

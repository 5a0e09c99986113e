// random_bits: element i depends on the key and i alone.

#include "base/random.h"
#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {

Kernel make_random_bits(const CompileInfo& info) {
  const int64_t count = info.output(0).shape.count();
  Kernel kernel;
  kernel.run = [count](const KernelCall& call) {
    const uint32_t* words = call.inputs[0].in<uint32_t>();
    const Key key{words[0], words[1]};
    uint32_t* y = call.outputs[0].out<uint32_t>();
    split(call.pool, count, grain_of(60), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = random_bits_at(key, static_cast<uint64_t>(i));
    });
  };
  return kernel;
}

} // namespace dllm::cpu

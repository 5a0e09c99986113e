#include "cpu/kernels/factories.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {
namespace {

constexpr int64_t kChunk =
    65536; // part of the operation's meaning: another number gives other bits

} // namespace

Kernel make_sum_of_squares(const CompileInfo& info) {
  const int64_t count = info.input(0).shape.count();
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  ScratchLayout layout;
  const int64_t partial = layout.add_floats(chunks);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    float* sums = reinterpret_cast<float*>(call.scratch + partial);
    split(call.pool, chunks, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] = math.sum_of_squares(x + i * kChunk, std::min(kChunk, count - i * kChunk));
      }
    });
    double total = 0;
    for (int64_t i = 0; i < chunks; ++i) total += static_cast<double>(sums[i]);
    *call.outputs[0].out<float>() = static_cast<float>(total);
  };
  return kernel;
}

} // namespace dllm::cpu

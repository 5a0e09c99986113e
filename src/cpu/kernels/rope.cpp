#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

namespace dllm::cpu {
namespace {

// x (batch, seq, heads, dim), positions i32(batch, seq), inv_freq (half) -> y like x. Numbers of a
// head from 2 half on are copied.
Kernel make_rope(const CompileInfo& info) {
  const bool interleaved = info.node.attributes.flag("interleaved");
  const bool inverse = info.node.attributes.flag("inverse");
  const float amplitude = static_cast<float>(info.node.attributes.number("amplitude"));
  const Shape& shape = info.input(0).shape;
  const int64_t tokens = shape.dim(0) * shape.dim(1), heads = shape.dim(2), dim = shape.dim(3);
  const int64_t half = info.input(2).shape.count();
  ScratchLayout layout;
  const int64_t table = layout.add_floats(tokens * 2 * half); // (token, cosine | sine, half)

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const int32_t* positions = call.inputs[1].in<int32_t>();
    const float* inv_freq = call.inputs[2].in<float>();
    float* y = call.outputs[0].out<float>();
    split(call.pool, tokens, grain_of(heads * dim + 8 * half), [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        float* cosine = reinterpret_cast<float*>(call.scratch + table) + token * 2 * half;
        float* sine = cosine + half;
        math.rope_table(static_cast<float>(positions[token]), inv_freq, half, amplitude, cosine,
                        sine);
        if (inverse) math.scale(-1.0f, half, sine);
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t at = (token * heads + head) * dim;
          math.rope(x + at, cosine, sine, half, interleaved, y + at);
          if (y != x) std::copy(x + at + 2 * half, x + at + dim, y + at + 2 * half);
        }
      }
    });
  };
  return kernel;
}

constexpr KernelEntry kRopeKernels[] = {
    {"rope", make_rope},
};

} // namespace

KernelList rope_kernels() {
  return kRopeKernels;
}

} // namespace dllm::cpu

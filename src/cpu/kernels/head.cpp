#include "cpu/kernels/head.h"

#include "cpu/kernels/rows.h"

namespace dllm::cpu {

Head::Head(const CompileInfo& info, ScratchLayout& layout)
    : weight_(info, 1, kPacked, layout), capacity_(info.input(0).shape.dim(0)),
      softcap_(static_cast<float>(info.node.attributes.number("softcap"))) {
  if (info.node.attributes.flag("has_bias")) bias_ = static_cast<int>(next_input_++);
  if (info.node.attributes.flag("has_scale")) scale_ = static_cast<int>(next_input_++);
}

const float* Head::scale(const KernelCall& call) const {
  return scale_ < 0 ? nullptr : call.inputs[scale_].in<float>();
}

void Head::logits(const KernelCall& call, const std::byte* panels, const float* x, int64_t rows,
                  int64_t begin, int64_t end, float* to, int64_t to_stride) const {
  Gemm gemm = weight_.product(panels + begin / kPanel * weight_.panel_bytes());
  gemm.a = x;
  gemm.a_stride = in();
  gemm.c = to;
  gemm.c_stride = to_stride;
  gemm.m = rows;
  gemm.n = end - begin;
  if (bias_ >= 0) gemm.bias = call.inputs[bias_].in<float>() + begin;
  if (scale_ >= 0) gemm.scale = call.inputs[scale_].in<float>() + begin;
  gemm_parallel(gemm, call.pool);
  if (!(softcap_ > 0)) return;
  split(call.pool, rows, grain_of(16 * gemm.n), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      dllm::cpu::rows().scores(1.0f, softcap_, gemm.n, to + row * to_stride);
  });
}

int64_t rows_in_use(const KernelCall& call, int input, int64_t capacity) {
  if (input < 0) return capacity;
  return std::clamp<int64_t>(*call.inputs[input].in<int32_t>(), 0, capacity);
}

int64_t vocab_block(int64_t rows, int64_t vocab) {
  constexpr int64_t kFloats = int64_t{1} << 22;
  constexpr int64_t kStep = 512;
  const int64_t wanted =
      std::clamp<int64_t>(kFloats / std::max<int64_t>(rows, 1), kStep, 32 * kStep);
  return std::min(wanted / kStep * kStep, (vocab + kStep - 1) / kStep * kStep);
}

} // namespace dllm::cpu

#include "cpu/kernels/weight_grad.h"

#include "cpu/gemm/pack_vector.h"

#include <algorithm>

namespace dllm::cpu {

WeightGradient::WeightGradient(Arithmetic arithmetic, int64_t rows, int64_t out, int64_t in,
                               ScratchLayout& layout)
    : in_(in), form_(panel_form(arithmetic, DType::f32, nullptr, in, true)),
      panels_(layout.add(form_.bytes(rows, in))) {
  Gemm largest;
  largest.layout = form_.layout;
  largest.m = out;
  largest.k = rows;
  rounded_ = layout.add(rounded_bytes(largest));
  if (form_.layout != PanelLayout::elements) return;
  constexpr int64_t kOutputs = 512;
  turned_stride_ = rows + kPanel; // not a power of two
  turned_out_ = std::min(out, kOutputs);
  turned_ = layout.add_floats(turned_out_ * turned_stride_);
}

void WeightGradient::set_rows(const KernelCall& call, const float* x, int64_t rows) const {
  pack(form_, x, rows, in_, call.scratch + panels_, call.pool);
}

void WeightGradient::add(const KernelCall& call, const float* dy, int64_t stride, int64_t rows,
                         int64_t out, float* dw, bool more) const {
  Gemm gemm;
  gemm.b = call.scratch + panels_;
  gemm.layout = form_.layout;
  gemm.rounded = call.scratch + rounded_;
  gemm.c_stride = gemm.n = in_;
  gemm.k = rows;
  gemm.accumulate = more;
  if (turned_ < 0) {
    gemm.a = dy;
    gemm.a_stride = 1;
    gemm.a_step = stride;
    gemm.c = dw;
    gemm.m = out;
    return gemm_parallel(gemm, call.pool);
  }
  float* turned = reinterpret_cast<float*>(call.scratch + turned_);
  gemm.a = turned;
  gemm.a_stride = turned_stride_;
  for (int64_t first = 0; first < out; first += turned_out_) {
    gemm.m = std::min(turned_out_, out - first);
    transpose(dy + first, stride, rows, gemm.m, turned, turned_stride_, call.pool);
    gemm.c = dw + first * in_;
    gemm_parallel(gemm, call.pool);
  }
}

} // namespace dllm::cpu

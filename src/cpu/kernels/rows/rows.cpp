#include "cpu/kernels/rows/rows.h"

#include "cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/rows/rows.cpp"
#include <hwy/foreach_target.h>

#include "cpu/kernels/rows/activation-inl.h"
#include "cpu/kernels/rows/chains-inl.h"
#include "cpu/kernels/rows/norm-inl.h"
#include "cpu/kernels/rows/rows-inl.h"
#include "cpu/kernels/rows/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

const Rows* RowTable() {
  static constexpr Rows table = {
      RmsNorm,        RmsNormGrad, LayerNorm, LayerNormGrad, RopeTable,    Rope,      ActivationOf,
      ActivationGrad, Gated,       GatedGrad, AdamW,         SumOfSquares, AddTo,     Scale,
      ProductSum,     RowMax,      Chains,    ExpSum,        ColumnMax,    ColumnExp, ExpMoments,
      Scores,         ScoreGrads,  RoundBf16, WidenBf16,     WidenI8,      EqualBits, NonzeroBits,
  };
  return &table;
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dllm::cpu {
HWY_EXPORT(RowTable);

const Rows& rows() {
  return *HWY_DYNAMIC_DISPATCH(RowTable)();
}

} // namespace dllm::cpu
#endif

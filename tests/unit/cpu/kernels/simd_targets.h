#pragma once
// Runs a test body once per instruction set that this program was built for and this chip has,
// "SCALAR" included.

#include "cpu/simd/targets.h"

#include <hwy/highway.h>

namespace dllm::cpu {

template <class F> void for_each_simd_target(const F& body) {
  for (int64_t targets = hwy::SupportedTargets() & HWY_TARGETS; targets != 0;
       targets &= targets - 1) {
    const int64_t target = targets & -targets;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

} // namespace dllm::cpu

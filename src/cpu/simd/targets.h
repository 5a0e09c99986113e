#pragma once
// Include before hwy/foreach_target.h. Chips without fused multiply-add run the scalar target (std::fma): the same
// bits, slowly.

#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SSSE3)

// Loops over accumulators must be unrolled, or GCC keeps them in memory (33 % of peak instead of 93 %).
#define DLLM_UNROLL _Pragma("GCC unroll 32")

#pragma once
// Include before hwy/foreach_target.h. The instruction sets that vector code is compiled for: AVX-512, AVX2 and scalar on
// x86-64, NEON or better on Arm. Chips without fused multiply-add run the scalar one (std::fma): the same bits, slowly.

#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SSSE3)

// Highway's fallback is its scalar target with GCC before 12.3 and an emulation of 128-bit vectors with other compilers.
// The emulation rounds twice in a multiply-add, so its sums are not ours: the scalar target for all.
#define HWY_BROKEN_EMU128 1

// Loops over accumulators must be unrolled, or GCC keeps them in memory (33 % of peak instead of 93 %).
#define DLLM_UNROLL _Pragma("GCC unroll 32")

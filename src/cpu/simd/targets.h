#pragma once
// Selects the instruction sets that vector code is compiled for. They are AVX-512, AVX2 and scalar
// on x86-64, and NEON on Arm. Include this header before hwy/foreach_target.h. Chips without fused
// multiply-add run the scalar set (std::fma), which is slow and has the same bits. SVE is disabled
// because its vectors have no size at compile time, so arrays of accumulators cannot hold them.

// Newer releases of Highway (1.2 in Debian 13) have targets without a name in 1.0. They are SSE2 as
// the baseline of x86-64, and variants of AVX-512 and NEON, for which all kernels would be compiled
// again. In 1.0 bit 26 is SVE2, and the other bits have no meaning.
// The bits are AVX3_SPR, AVX3_ZEN4, SSE2 and NEON_BF16.
#define DLLM_NEWER_TARGETS ((1LL << 4) | (1LL << 6) | (1LL << 14) | (1LL << 26))
#define HWY_DISABLED_TARGETS                                                                       \
  (HWY_SSE4 | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | DLLM_NEWER_TARGETS)

// NEON is the baseline of arm64, so there is one set and no choice at run time. With a choice
// Highway compiles its functions for NEON with AES. GCC does not inline these into implicit
// constructors of structs of vectors, which are compiled for the baseline.
#ifdef __aarch64__
// In Highway this macro marks a system where a program cannot read the features of its chip.
#define TOOLCHAIN_MISS_SYS_AUXV_H 1
#endif

// Highway's fallback is its scalar target with GCC before 12.3, and an emulation of 128-bit vectors
// with other compilers. The emulation rounds twice in a multiply-add, so its sums would differ.
// This definition selects the scalar target with every compiler.
#define HWY_BROKEN_EMU128 1

// Loops over accumulators must be unrolled, or GCC keeps the accumulators in memory (33 % of peak
// instead of 93 %). Builds with sanitizers do not unroll them, because each checked load makes the
// compilation longer.
#if defined(DLLM_SANITIZES_ADDRESS) || defined(DLLM_SANITIZES_THREAD)
#define DLLM_UNROLL
#else
#define DLLM_UNROLL _Pragma("GCC unroll 32")
#endif

#pragma once
// Include before hwy/foreach_target.h. The instruction sets that vector code is compiled for: AVX-512, AVX2 and scalar on
// x86-64, NEON on Arm. Chips without fused multiply-add run the scalar one (std::fma): the same bits, slowly. Vectors of SVE
// have no size at compile time: they cannot be elements of arrays, which accumulators here are.

// Newer releases of Highway (1.2 in Debian 13) have targets that 1.0 has no names for: SSE2 as the baseline of x86-64, and
// variants of AVX-512 and NEON that would compile all kernels again. In 1.0 their bits mean nothing, or SVE2 (26).
#define DLLM_NEWER_TARGETS                                                                         \
  ((1LL << 4) | (1LL << 6) | (1LL << 14) | (1LL << 26)) // AVX3_SPR, AVX3_ZEN4, SSE2, NEON_BF16
#define HWY_DISABLED_TARGETS                                                                       \
  (HWY_SSE4 | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | DLLM_NEWER_TARGETS)

// NEON is the baseline of arm64: one set, no choice at run time. With a choice Highway compiles its functions for NEON with
// AES, and GCC does not inline them into implicit constructors of structs of vectors, which are compiled for the baseline.
#ifdef __aarch64__
#define TOOLCHAIN_MISS_SYS_AUXV_H                                                                  \
  1 // Highway's name for a system on which chips cannot be distinguished
#endif

// Highway's fallback is its scalar target with GCC before 12.3 and an emulation of 128-bit vectors with other compilers.
// The emulation rounds twice in a multiply-add, so its sums are not ours: the scalar target for all.
#define HWY_BROKEN_EMU128 1

// Loops over accumulators must be unrolled, or GCC keeps them in memory (33 % of peak instead of 93 %). Not in builds with
// sanitizers, where each of the unrolled loads is checked and takes its time to compile.
#if defined(DLLM_SANITIZES_ADDRESS) || defined(DLLM_SANITIZES_THREAD)
#define DLLM_UNROLL
#else
#define DLLM_UNROLL _Pragma("GCC unroll 32")
#endif

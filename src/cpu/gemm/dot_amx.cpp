// bf16 and int8 products on AMX (tdpbf16ps, tdpbsud). Its tiles are 16 lines of the panels of pairs
// and quads. The tests run the loops with a unit in plain C++. The first use compares the products
// with the products of the AVX-512 kernels, and AMX is not used where they differ.
//
// A process makes this choice once. Sums of bf16 have another order than with vdpbf16ps: 32 numbers
// of k at a time, even and odd numbers separately. So all products of a run must use the same
// kernel. DLLM_AMX=0 in the environment switches AMX off.
//
// Tiles are loaded in assembler, because GCC 12 may move stores to memory after the loads of its
// intrinsics.

#include "cpu/gemm/dot.h"

#include "base/threads/parallel.h"

#include <hwy/base.h>

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prfchw,amx-tile,amx-bf16,amx-int8")
#include "cpu/gemm/amx-inl.h"

namespace dllm::cpu::amx {
namespace {

struct Instructions {
  static HWY_INLINE void Configure(const TileShape& shape) {
    asm volatile("ldtilecfg %0" ::"m"(shape) : "memory");
  }
  static HWY_INLINE void Release() { asm volatile("tilerelease" ::: "memory"); }
  template <int kTile> static HWY_INLINE void Load(const void* p, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile> static HWY_INLINE void LoadOnce(const void* p, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile> static HWY_INLINE void Store(void* p, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile> static HWY_INLINE void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile) : "memory");
  }
  template <bool kInteger, int kC, int kA, int kB> static HWY_INLINE void Dot() {
    if constexpr (kInteger)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB) : "memory");
    else
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB) : "memory");
  }
};

// Returns true for products that the AVX-512 kernel computes, with the same bits. Products of few
// rows are limited by reading weights, where vectors are as fast. Weights in blocks have no AMX
// kernel.
bool is_for_vectors(const Gemm& g) {
  constexpr int64_t kFewest = 4;
  return g.b_format != nullptr || g.m < kFewest;
}

void round_bytes(const Gemm& g, int64_t begin, int64_t end) {
  is_for_vectors(g) ? round_to_bytes(g, begin, end) : round_to_byte_tiles(g, begin, end);
}

void integer_part(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  if (is_for_vectors(g)) return avx512_vnni_kernel()->part(g, row_begin, row_end, begin, end);
  TilePart<Instructions, true>(g, row_begin, row_end, begin, end);
}

void pair_part(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  TilePart<Instructions, false>(g, row_begin, row_end, begin, end);
}

} // namespace
} // namespace dllm::cpu::amx
HWY_POP_ATTRIBUTES

namespace dllm::cpu {
namespace {

// Requests permission for the 8 KB of tile registers, which Linux then saves in signal frames too.
// Returns false when it is refused.
bool system_permits_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool is_switched_off() {
  const char* value = std::getenv("DLLM_AMX");
  return value != nullptr && std::string_view(value) == "0";
}

// Returns true if AMX can be used. In EDX of CPUID leaf 7, sub-leaf 0, bit 22 is AMX-BF16, bit 24
// is AMX-TILE and bit 25 is AMX-INT8.
bool has_amx() {
  constexpr unsigned kAll = 1u << 22 | 1u << 24 | 1u << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAll) != kAll) return false;
  return !is_switched_off() && system_permits_tiles();
}

bool may_use(const DotKernel& kernel, const DotKernel* vectors, PanelLayout layout) {
  static const bool has = has_amx();
  return has && vectors != nullptr && same_products(kernel, *vectors, layout);
}

} // namespace

const DotKernel* amx_bf16_kernel() {
  static constexpr DotKernel kernel{"amx_bf16", round_to_pair_tiles, amx::pair_part,
                                    amx::TileChains<amx::Instructions, false>};
  static const bool use = may_use(kernel, avx512_bf16_kernel(), PanelLayout::pairs);
  return use ? &kernel : nullptr;
}

const DotKernel* amx_int8_kernel() {
  static constexpr DotKernel kernel{"amx_int8", amx::round_bytes, amx::integer_part,
                                    amx::TileChains<amx::Instructions, true>};
  static const bool use = may_use(kernel, avx512_vnni_kernel(), PanelLayout::quads);
  return use ? &kernel : nullptr;
}

} // namespace dllm::cpu

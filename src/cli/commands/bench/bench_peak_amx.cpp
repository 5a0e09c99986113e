// This file measures multiply-adds of AMX tiles, where the chip and the system have them.

#include "bench_peak.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace dllm::cli {
namespace {

// The memory that ldtilecfg reads: eight tiles of 16 rows of 64 bytes.
struct PeakTiles {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Fills a tile with different numbers, because a chip multiplies equal numbers and zeros at a
// higher clock.
struct PeakNumbers {
  alignas(64) uint16_t tile[512];
  explicit PeakNumbers(float start) {
    uint32_t state = start > 0 ? 1 : 2;
    for (uint16_t& x : tile) {
      state = state * 1664525u + 1013904223u;
      x = static_cast<uint16_t>((state >> 16 & 0x80FFu) | 0x3F00u); // 0.5 to 2 and their negatives
    }
  }
};

constexpr PeakTiles kPeakTiles;

// GCC 12 does not see that the intrinsics read and write memory.
template <class T> void fence(T& memory) {
  asm volatile("" ::"r"(&memory) : "memory");
}

template <bool kInteger, class Sum>
__attribute__((target("amx-tile,amx-bf16,amx-int8"))) double tile_chains(int64_t rounds,
                                                                         float start) {
  const PeakNumbers numbers(start);
  alignas(64) Sum last[256] = {};
  fence(numbers);
  _tile_loadconfig(&kPeakTiles);
  _tile_loadd(4, numbers.tile, 64);
  _tile_loadd(5, numbers.tile, 64);
  _tile_loadd(6, numbers.tile, 64);
  _tile_loadd(7, numbers.tile, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t r = 0; r < rounds; ++r) {
    if constexpr (kInteger) {
      _tile_dpbsud(0, 4, 6);
      _tile_dpbsud(1, 4, 7);
      _tile_dpbsud(2, 5, 6);
      _tile_dpbsud(3, 5, 7);
    } else {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(3, last, 64);
  _tile_release();
  fence(last);
  return static_cast<double>(last[0]);
}

} // namespace

bool has_amx_peak() {
  constexpr unsigned kAll = 1u << 22 | 1u << 24 | 1u << 25; // AMX-BF16, AMX-TILE, AMX-INT8
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAll) != kAll) return false;
  const char* value = std::getenv("DLLM_AMX"); // as the engine does
  if (value != nullptr && std::string_view(value) == "0") return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

double peak_bf16_amx(int64_t rounds, float start) {
  return tile_chains<false, float>(rounds, start);
}
double peak_int8_amx(int64_t rounds, float start) {
  return tile_chains<true, int32_t>(rounds, start);
}

} // namespace dllm::cli

#else

namespace dllm::cli {

bool has_amx_peak() {
  return false;
}
double peak_bf16_amx(int64_t, float) {
  return 0;
}
double peak_int8_amx(int64_t, float) {
  return 0;
}

} // namespace dllm::cli

#endif

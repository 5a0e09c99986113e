#include "bench_peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Loops over accumulators are unrolled, because GCC would keep the accumulators in memory.
#define DLLM_PEAK_UNROLL _Pragma("GCC unroll 16")

namespace dllm::cli {
namespace {

using PeakClock = std::chrono::steady_clock;
constexpr int kChains = 12; // more than latency times throughput of the chips of today

#if defined(__x86_64__)

__attribute__((target("avx512f"))) double peak_f32_avx512(int64_t rounds, float start) {
  const __m512 x = _mm512_set1_ps(start), y = _mm512_set1_ps(1 - start);
  __m512 sums[kChains];
  DLLM_PEAK_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r) {
    DLLM_PEAK_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], x, y);
  }
  DLLM_PEAK_UNROLL
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  float last[16];
  _mm512_storeu_ps(last, sums[0]);
  return static_cast<double>(last[0]);
}

__attribute__((target("avx2,fma"))) double peak_f32_avx2(int64_t rounds, float start) {
  const __m256 x = _mm256_set1_ps(start), y = _mm256_set1_ps(1 - start);
  __m256 sums[kChains];
  DLLM_PEAK_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r) {
    DLLM_PEAK_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], x, y);
  }
  DLLM_PEAK_UNROLL
  for (int i = 1; i < kChains; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  return static_cast<double>(_mm256_cvtss_f32(sums[0]));
}

__attribute__((target("avx512f,avx512vl,avx512bw,avx512bf16"))) double
peak_bf16_avx512(int64_t rounds, float start) {
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(start), _mm512_set1_ps(1 - start));
  __m512 sums[kChains];
  DLLM_PEAK_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r) {
    DLLM_PEAK_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], x, x);
  }
  DLLM_PEAK_UNROLL
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  float last[16];
  _mm512_storeu_ps(last, sums[0]);
  return static_cast<double>(last[0]);
}

__attribute__((target("avx512f,avx512vnni"))) double peak_int8_avx512(int64_t rounds, float start) {
  const __m512i x = _mm512_set1_epi8(start > 0 ? 1 : 2);
  __m512i sums[kChains];
  DLLM_PEAK_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_epi32(i);
  for (int64_t r = 0; r < rounds; ++r) {
    DLLM_PEAK_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], x, x);
  }
  DLLM_PEAK_UNROLL
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  int32_t last[16];
  _mm512_storeu_si512(last, sums[0]);
  return last[0];
}

#elif defined(__aarch64__)

double peak_f32_neon(int64_t rounds, float start) {
  const float32x4_t x = vdupq_n_f32(start), y = vdupq_n_f32(1 - start);
  float32x4_t sums[kChains];
  DLLM_PEAK_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = vdupq_n_f32(static_cast<float>(i));
  for (int64_t r = 0; r < rounds; ++r) {
    DLLM_PEAK_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = vfmaq_f32(y, sums[i], x);
  }
  DLLM_PEAK_UNROLL
  for (int i = 1; i < kChains; ++i) sums[0] = vaddq_f32(sums[0], sums[i]);
  return static_cast<double>(vaddvq_f32(sums[0]));
}

#endif

// The loop for any chip: a product and a sum of four numbers at once.
double peak_f32_plain(int64_t rounds, float start) {
  using Four = float __attribute__((vector_size(16)));
  const Four x = {start, start, start, start}, y = 1 - x;
  Four sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = x * static_cast<float>(i);
  for (int64_t r = 0; r < rounds; ++r) {
    DLLM_PEAK_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * x + y;
  }
  for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
  return static_cast<double>(sums[0][0]);
}

} // namespace

PeakLoop::PeakLoop(const std::string& arithmetic, int64_t threads)
    : loop_(peak_f32_plain), operations_(2.0 * 4 * kChains), name_("plain f32"), threads_(threads) {
  const auto use = [&](Loop loop, int lanes, const char* name, int chains = kChains) {
    loop_ = loop;
    operations_ = 2.0 * lanes * chains;
    name_ = name;
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    use(peak_f32_avx2, 8, "avx2 f32");
  if (__builtin_cpu_supports("avx512f")) use(peak_f32_avx512, 16, "avx512 f32");
  if (arithmetic == "bf16" && __builtin_cpu_supports("avx512bf16"))
    use(peak_bf16_avx512, 32, "avx512 bf16");
  if (arithmetic == "int8" && __builtin_cpu_supports("avx512vnni"))
    use(peak_int8_avx512, 64, "avx512 int8");
  constexpr int kTile = 16 * 16;
  if (arithmetic == "bf16" && has_amx_peak()) use(peak_bf16_amx, 32 * kTile, "amx bf16", 4);
  if (arithmetic == "int8" && has_amx_peak()) use(peak_int8_amx, 64 * kTile, "amx int8", 4);
#elif defined(__aarch64__)
  use(peak_f32_neon, 4, "neon f32");
#endif
}

double PeakLoop::measure(double seconds) const {
  return best_of(1, seconds, 1 << 14);
}

double PeakLoop::measure_at_clock() const {
  return best_of(4, 4e-4, 1 << 11);
}

// rounds: rounds between two readings of the clock.
double PeakLoop::best_of(int looks, double seconds, int64_t rounds) const {
  std::vector<double> rates(static_cast<size_t>(threads_), 0.0);
  std::atomic<double> sink{0};
  const auto work = [&](size_t index) {
    double sum = 0;
    for (int look = 0; look < looks; ++look) {
      const auto begin = PeakClock::now();
      double passed = 0;
      int64_t done = 0;
      while (passed < seconds) {
        sum += loop_(rounds, 0.999f);
        done += rounds;
        passed = std::chrono::duration<double>(PeakClock::now() - begin).count();
      }
      rates[index] = std::max(rates[index], static_cast<double>(done) * operations_ / passed);
    }
    sink.store(sum);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < rates.size(); ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

} // namespace dllm::cli

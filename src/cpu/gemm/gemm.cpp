#include "cpu/gemm/gemm.h"

#include "base/threads/parallel.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/expand.h"
#include "cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm/gemm.cpp"
#include <hwy/foreach_target.h>

#include "cpu/gemm/gemm-inl.h"

#if HWY_ONCE

#include <chrono>
#include <vector>

namespace dllm::cpu {
HWY_EXPORT(GemmPart);
HWY_EXPORT(FmaChains);

namespace {

// A smaller chunk is not worth waking a thread. These are 16 us of arithmetic in f32, or 30 us of
// reading panels from memory.
constexpr double kChunkFlops = 3e6;
constexpr double kChunkBytes = 6e5;
constexpr int64_t kChunksPerThread = 3;
// Chunks above this multiple of the smallest chunk are cut further. Then threads of unequal speed
// end at about the same time, and a stripe of panels (gemm-inl.h) is not cut.
constexpr double kLargeChunk = 128;
// Smallest chunks between two calls of RunPause::look(), about half a millisecond.
constexpr double kPauseChunks = 8;

// Returns the rows of a whole tile, 8 for vectors and 2 x 16 for a unit that multiplies tiles.
int64_t row_step(int64_t rows) {
  return rows >= 64 ? 32 : 8;
}

// Returns the border `index` of `count` nearly equal parts of `size`. It is a multiple of `step` or
// `size`.
int64_t border(int64_t size, int64_t index, int64_t count, int64_t step) {
  return index == count ? size : size * index / count / step * step;
}

// Returns the panels that are not separated, so that the wide tiles of few rows and pairs of panels
// are not cut. With many rows, arrays of elements have tiles of two and three panels, which fit any
// share. There an equal load of the threads matters more than groups of three.
int64_t panel_step(const Gemm& gemm) {
  if (gemm.m <= 4) return gemm.m == 1 ? 8 : 4;
  return gemm.layout == PanelLayout::elements && gemm.b_format == nullptr && gemm.m >= 40 ? 1 : 2;
}

// Returns about the speed relative to f32.
double speed_of(PanelLayout layout) {
  return layout == PanelLayout::quads ? 4 : layout == PanelLayout::pairs ? 2 : 1;
}

} // namespace

int64_t line_bytes(const Gemm& gemm, int64_t k) {
  return PanelForm{gemm.b_type, gemm.b_format, gemm.layout, false}.line_bytes(k);
}

HWY_EXPORT(GemmReads);
bool gemm_reads(const WeightFormat& format) {
  return HWY_DYNAMIC_DISPATCH(GemmReads)(format);
}

void gemm_part(const Gemm& gemm, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end) {
  if (gemm.layout != PanelLayout::elements)
    return dot_kernel(gemm.layout).part(gemm, row_begin, row_end, panel_begin, panel_end);
  HWY_DYNAMIC_DISPATCH(GemmPart)(gemm, row_begin, row_end, panel_begin, panel_end);
}

namespace {

// A cut of a product into chunks, `across` parts of its panels times `down` parts of its rows.
struct Cut {
  int64_t across = 1, down = 1;
};

// Estimates the time of a cut to compare cuts. It is the time of the thread with most chunks, in
// panels x rows. Three measured effects make it longer:
// - Tiles have two or three panels, and a single panel runs at half the speed.
// - A chunk of few rows waits for its weights.
// - Threads differ in speed, so one round of chunks takes a quarter longer than an even share, and
// three rounds a twelfth.
double cost_of(const Cut& cut, const Gemm& gemm, int64_t panels, int64_t threads) {
  const int64_t chunks = cut.across * cut.down, rounds = (chunks + threads - 1) / threads;
  const int64_t rows = (gemm.m + cut.down - 1) / cut.down, least = panels / cut.across;
  const double single = least == 1 ? 1 : least % 3 == 1 ? 0.5 : 0.2;
  const double even = static_cast<double>(panels * cut.down) / static_cast<double>(threads);
  const double longest = static_cast<double>(rounds * least),
               unequal = panels % cut.across == 0 ? 0 : 0.25;
  return (std::max(even, longest) * (1 + single / static_cast<double>(least)) + unequal) *
         static_cast<double>(rows + 4) * (1 + 0.25 / static_cast<double>(rounds));
}

// Returns a cut into at most `wanted` chunks. Panels are cut first, so that every weight is read
// once. Rows are cut too where many threads would get unequal shares of panels.
Cut cut_of(const Gemm& gemm, int64_t panels, int64_t wanted, int64_t threads) {
  if (wanted <= 1) return {};
  const int64_t widest = std::max<int64_t>(1, panels / panel_step(gemm));
  const int64_t tallest = std::max<int64_t>(1, gemm.m / row_step(gemm.m));
  Cut best{std::min(widest, wanted), 1};
  best.down = std::clamp<int64_t>(wanted / best.across, 1, tallest);
  double least = cost_of(best, gemm, panels, threads);
  for (int64_t down = 1; down <= std::min<int64_t>(tallest, 8); down *= 2) {
    for (int64_t rounds = 1; rounds <= kChunksPerThread; ++rounds) {
      const Cut cut{std::clamp<int64_t>(rounds * threads / down, 1, widest), down};
      if (cut.across * cut.down > wanted) continue;
      const double cost = cost_of(cut, gemm, panels, threads);
      if (cost < least) best = cut, least = cost;
    }
  }
  return best;
}

// Returns the cut of a product that may be paused between chunks. It has about `slices` chunks, and
// at least one per thread; each thread runs one chunk between two pauses.
Cut slices_of(const Gemm& gemm, int64_t panels, double slices, int64_t threads) {
  const int64_t widest = std::max<int64_t>(1, panels / panel_step(gemm));
  const int64_t tallest = std::max<int64_t>(1, gemm.m / row_step(gemm.m));
  const auto wanted = std::max<int64_t>(threads, static_cast<int64_t>(slices));
  const int64_t across = std::min(widest, wanted);
  return {across, std::clamp<int64_t>(wanted / across, 1, tallest)};
}

// Computes C from rounded rows of A, with panels that are read as they are.
void multiply(const Gemm& gemm, const Workers& pool, RunPause* pause) {
  const int64_t panels = panel_count(gemm.n);
  const double flops =
      2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
  const double bytes = static_cast<double>(panels * kPanel * line_bytes(gemm, gemm.k));
  const double worth = std::max(flops / (kChunkFlops * speed_of(gemm.layout)), bytes / kChunkBytes);
  const int64_t threads = pool.threads();
  const int64_t most =
      std::max(threads * kChunksPerThread, static_cast<int64_t>(worth / kLargeChunk));
  const int64_t wanted =
      threads <= 1 ? 1 : std::clamp<int64_t>(static_cast<int64_t>(worth), 1, most);
  const Cut cut = pause == nullptr ? cut_of(gemm, panels, wanted, threads)
                                   : slices_of(gemm, panels, worth / kPauseChunks, threads);
  const int64_t step = panel_step(gemm), rows = row_step(gemm.m);
  Gemm checked = gemm;
  checked.task = pool.task;
  const auto part = [&](int64_t chunk) {
    const int64_t column = chunk % cut.across, row = chunk / cut.across;
    gemm_part(checked, border(gemm.m, row, cut.down, rows), border(gemm.m, row + 1, cut.down, rows),
              border(panels, column, cut.across, step),
              border(panels, column + 1, cut.across, step));
  };
  const int64_t chunks = cut.across * cut.down;
  if (pause == nullptr) return parallel(pool, chunks, part);
  for (int64_t begin = 0; begin < chunks; begin += threads) {
    if (begin > 0) pause->look();
    parallel(pool, std::min(threads, chunks - begin), [&](int64_t chunk) { part(begin + chunk); });
  }
}

// The panels of a stripe stay in the second or third level of the cache.
constexpr int64_t kStripeBytes = int64_t{4} << 20;

// Returns the columns of C in the smallest stripe of expanded panels. It does not depend on m, nor
// do bits depend on it.
int64_t least_stripe(const Gemm& gemm) {
  constexpr int64_t kPanels = 8; // of products of one row
  return gemm.expansion == Expansion::turned ? turned_columns(gemm.stored) : kPanels * kPanel;
}
int64_t expanded_column(const Gemm& gemm) {
  return PanelForm{DType::f32, nullptr, gemm.layout, false}.line_bytes(gemm.k);
}
int64_t stripe_columns(const Gemm& gemm) {
  const int64_t least = least_stripe(gemm);
  const int64_t bytes = std::max<int64_t>(1, least * expanded_column(gemm));
  return std::max<int64_t>(1, kStripeBytes / bytes) * least;
}

// Returns true when expanding the panels of a product takes less time than it gains. A tile of f32
// reads codes for 6 or 8 rows at a time. AVX2, rows of 1536 numbers: nf4 has 34 GFLOP/s of 100,
// q8_0 75.
bool is_expanded(const Gemm& gemm) {
  if (gemm.expansion == Expansion::none) return false;
  if (gemm.expansion == Expansion::turned || gemm.layout == PanelLayout::pairs) return true;
  const WeightFormat& format = *gemm.stored.format;
  const int64_t fewest = format.block_bytes < format.block ? 32 : 128; // below 8 bits, and from
  return gemm.m >= fewest;
}

void multiply_expanded(const Gemm& gemm, const Workers& pool, RunPause* pause) {
  const bool turned = gemm.expansion == Expansion::turned;
  const PanelSource source{gemm.stored, static_cast<const std::byte*>(gemm.b),
                           turned ? gemm.k : gemm.n, turned ? gemm.n : gemm.k};
  const int64_t step = stripe_columns(gemm);
  Gemm part = gemm;
  part.expansion = Expansion::none;
  part.b = gemm.expanded;
  part.b_type = DType::f32;
  part.b_format = nullptr;
  for (int64_t begin = 0; begin < gemm.n; begin += step) {
    if (pause != nullptr && begin > 0) pause->look();
    part.n = std::min(step, gemm.n - begin);
    part.c = gemm.c + begin;
    if (gemm.scale != nullptr) part.scale = gemm.scale + begin;
    if (gemm.bias != nullptr) part.bias = gemm.bias + begin;
    if (turned)
      expand_turned(source, begin, part.n, gemm.layout, gemm.expanded, pool);
    else
      expand_rows(source, begin / kPanel, panel_count(part.n), gemm.layout, gemm.expanded, pool);
    multiply(part, pool, pause);
  }
}

} // namespace

int64_t expanded_bytes(const Gemm& gemm) {
  if (!is_expanded(gemm)) return 0;
  const int64_t column = expanded_column(gemm);
  return std::min(panel_count(gemm.n) * kPanel * column,
                  std::max(kStripeBytes, least_stripe(gemm) * column));
}

void gemm_parallel(const Gemm& gemm, const Workers& pool, RunPause* pause) {
  if (gemm.n == 0 || gemm.m == 0) return;
  round_activations(gemm, gemm.m, pool);
  if (is_expanded(gemm))
    multiply_expanded(gemm, pool, pause);
  else
    multiply(gemm, pool, pause);
}

double measure_peak_flops(const Workers& pool, int threads) {
  using Clock = std::chrono::steady_clock;
  const int64_t rounds = int64_t{1} << 15;
  const auto end = Clock::now() + std::chrono::milliseconds(60);
  double best = 0;
  std::vector<float> sinks(static_cast<size_t>(threads) * 16, 0.999f);
  for (int attempt = 0; attempt < 3 || Clock::now() < end; ++attempt) {
    std::vector<double> rates(static_cast<size_t>(threads), 0.0);
    parallel(pool, threads, [&](int64_t i) {
      float* sink = &sinks[static_cast<size_t>(i) * 16];
      *sink = 0.999f;
      const auto begin = Clock::now();
      const int64_t done = HWY_DYNAMIC_DISPATCH(FmaChains)(rounds, sink);
      const std::chrono::duration<double> seconds = Clock::now() - begin;
      rates[static_cast<size_t>(i)] = 2.0 * static_cast<double>(done) / seconds.count();
    });
    double sum = 0;
    for (double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

HWY_EXPORT(TargetId);
const char* simd_target() {
  return hwy::TargetName(HWY_DYNAMIC_DISPATCH(TargetId)());
}

} // namespace dllm::cpu
#endif

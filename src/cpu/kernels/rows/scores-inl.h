// Per-target: scores of attention, keys where they are times queries in panels (gemm.h). The chains of gemm_part, so the same
// bits; but nothing is decided anew for every few keys, and what later tiles read is prefetched evenly: a core has few buffers
// for lines on their way, and behind a burst of prefetches its loads wait.

#if defined(DLLM_CPU_KERNELS_ROWS_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_ROWS_SCORES_INL_H_
#undef DLLM_CPU_KERNELS_ROWS_SCORES_INL_H_
#else
#define DLLM_CPU_KERNELS_ROWS_SCORES_INL_H_
#endif

#include "cpu/kernels/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

constexpr int64_t kScorePanel = 16; // columns
constexpr int kScorePanels = kLanes == 16 ? 2 : 1;
constexpr int kScoreRows = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 4;
constexpr int64_t kScoreStep = 4; // numbers of a chain between two looks at what lies ahead

// The lines of the rows ahead, one after the other.
class LinesAhead {
public:
  explicit LinesAhead(const RowsAhead& rows)
      : row_(rows.rows), end_(rows.rows + rows.count), bytes_(rows.bytes) {}

  HWY_INLINE void step() {
    if (at_ >= stop_) {
      if (row_ == end_) return;
      at_ = *row_++;
      stop_ = at_ + bytes_;
    }
    __builtin_prefetch(at_, 0, 2);
    at_ += 64;
  }

private:
  const std::byte* const* row_;
  const std::byte* const* end_;
  const std::byte *at_ = nullptr, *stop_ = nullptr;
  int64_t bytes_;
};

// R keys x P panels; kLines are prefetched in every four steps.
template <int R, int P, int kLines>
HWY_NOINLINE void ScoreTile(const ScoreCall& t, int64_t key, int64_t column, LinesAhead& lines) {
  constexpr int kVectors = static_cast<int>(kScorePanel / kLanes), J = P * kVectors;
  const F32 d;
  hn::Vec<F32> sums[R][J];
  DLLM_UNROLL for (int r = 0; r < R; ++r) {
    DLLM_UNROLL for (int j = 0; j < J; ++j) sums[r][j] = hn::Zero(d);
  }
  const float *x = t.keys + key * t.key_stride, *q = t.queries + column * t.dim;
  const int64_t stride = t.key_stride, panel = t.dim * kScorePanel;
  LinesAhead ahead = lines;
  int64_t k = 0;
  const auto step = [&]() HWY_ATTR {
    hn::Vec<F32> w[J];
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      w[j] = hn::LoadU(d, q + j / kVectors * panel + j % kVectors * kLanes);
    }
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      const auto v = hn::Set(d, x[r * stride]);
      DLLM_UNROLL for (int j = 0; j < J; ++j) sums[r][j] = Fma(v, w[j], sums[r][j]);
    }
    ++x, ++k, q += kScorePanel;
  };
  while (k + kScoreStep <= t.dim) {
    DLLM_UNROLL for (int i = 0; i < kLines; ++i) ahead.step();
    DLLM_UNROLL for (int64_t i = 0; i < kScoreStep; ++i) step();
  }
  while (k < t.dim) step();
  lines = ahead;
  float* to = t.scores + key * t.score_stride + column;
  DLLM_UNROLL for (int r = 0; r < R; ++r) {
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      hn::StoreU(sums[r][j], d, to + r * t.score_stride + j * kLanes);
    }
  }
}

template <int R, int kLines>
void ScoreColumns(const ScoreCall& t, int64_t key, LinesAhead& lines) {
  int64_t c = 0;
  for (; c + kScorePanels * kScorePanel <= t.columns; c += kScorePanels * kScorePanel)
    ScoreTile<R, kScorePanels, kLines>(t, key, c, lines);
  if (c < t.columns) ScoreTile<R, 1, kLines>(t, key, c, lines);
}

template <int kLines> void ScoreRows(const ScoreCall& t) {
  LinesAhead lines(t.ahead);
  int64_t key = 0;
  for (; key + kScoreRows <= t.count; key += kScoreRows)
    ScoreColumns<kScoreRows, kLines>(t, key, lines);
  for (; key < t.count; ++key) ScoreColumns<1, kLines>(t, key, lines);
}

void KeyScores(const ScoreCall& t) {
  const int64_t lines = t.ahead.count * ((t.ahead.bytes + 63) / 64);
  const int64_t steps = (t.count + kScoreRows - 1) / kScoreRows * (t.dim / kScoreStep);
  if (lines == 0) return ScoreRows<0>(t);
  if (lines <= steps) return ScoreRows<1>(t);
  if (lines <= 2 * steps) return ScoreRows<2>(t);
  ScoreRows<4>(t); // what does not fit is not prefetched
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

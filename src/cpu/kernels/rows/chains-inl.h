// The small products of attention. They have the chains of gemm_part and so the same bits. Their
// operands are in the near caches, so panels are not prefetched and the tile size is not chosen
// again for every few rows. Rows of later calls are prefetched at an even rate, because a core has
// few line buffers and its loads wait after a burst of prefetches. The header is included once per
// target.

#if defined(DLLM_CPU_KERNELS_ROWS_CHAINS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_ROWS_CHAINS_INL_H_
#undef DLLM_CPU_KERNELS_ROWS_CHAINS_INL_H_
#else
#define DLLM_CPU_KERNELS_ROWS_CHAINS_INL_H_
#endif

#include "cpu/gemm/gemm.h"
#include "cpu/kernels/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

constexpr int kChainPanels = kLanes == 16 ? 2 : 1;
constexpr int kChainRows = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 4;
constexpr int64_t kChainStep = 4; // numbers of a chain between two prefetches

// Prefetches the lines of the rows ahead in order.
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

// Computes R rows x P panels. kLines lines are prefetched in every four steps. With kTransposed
// a_stride is 1, otherwise a_step is 1.
template <int R, int P, int kLines, bool kTransposed>
HWY_NOINLINE void ChainTile(const ChainCall& t, int64_t row, int64_t column, LinesAhead& lines) {
  constexpr int kVectors = static_cast<int>(kPanel / kLanes), J = P * kVectors;
  const F32 d;
  const int64_t stride = kTransposed ? 1 : t.a_stride, a_step = kTransposed ? t.a_step : 1;
  const int64_t panel = t.k * kPanel;
  const float *a = t.a + row * stride, *b = t.b + column * t.k;
  float* const c = t.c + row * t.c_stride + column;
  hn::Vec<F32> sums[R][J];
  DLLM_UNROLL for (int r = 0; r < R; ++r) {
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      sums[r][j] = t.load ? hn::LoadU(d, c + r * t.c_stride + j * kLanes) : hn::Zero(d);
    }
  }
  const auto step = [&]() HWY_ATTR {
    hn::Vec<F32> w[J];
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      w[j] = hn::LoadU(d, b + j / kVectors * panel + j % kVectors * kLanes);
    }
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      const auto x = hn::Set(d, a[r * stride]);
      DLLM_UNROLL for (int j = 0; j < J; ++j) sums[r][j] = Fma(x, w[j], sums[r][j]);
    }
    a += a_step;
    b += kPanel;
  };
  LinesAhead ahead = lines;
  int64_t k = 0;
  for (; k + kChainStep <= t.k; k += kChainStep) {
    DLLM_UNROLL for (int i = 0; i < kLines; ++i) ahead.step();
    DLLM_UNROLL for (int64_t i = 0; i < kChainStep; ++i) step();
  }
  for (; k < t.k; ++k) step();
  lines = ahead;
  DLLM_UNROLL for (int r = 0; r < R; ++r) {
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      hn::StoreU(sums[r][j], d, c + r * t.c_stride + j * kLanes);
    }
  }
}

template <int R, int kLines, bool kTransposed>
void ChainColumns(const ChainCall& t, int64_t row, LinesAhead& lines) {
  int64_t c = 0;
  for (; c + kChainPanels * kPanel <= t.columns; c += kChainPanels * kPanel)
    ChainTile<R, kChainPanels, kLines, kTransposed>(t, row, c, lines);
  if (c < t.columns) ChainTile<R, 1, 0, kTransposed>(t, row, c, lines);
}

template <int kLines, bool kTransposed> void ChainRows(const ChainCall& t) {
  LinesAhead lines(t.ahead);
  int64_t row = 0;
  for (; row + kChainRows <= t.rows; row += kChainRows)
    ChainColumns<kChainRows, kLines, kTransposed>(t, row, lines);
  constexpr int kHalf = std::max(1, kChainRows / 2);
  for (; row + kHalf <= t.rows; row += kHalf) ChainColumns<kHalf, 0, kTransposed>(t, row, lines);
  for (; row < t.rows; ++row) ChainColumns<1, 0, kTransposed>(t, row, lines);
}

template <bool kTransposed> void ChainLines(const ChainCall& t) {
  const int64_t lines = t.ahead.count * ((t.ahead.bytes + 63) / 64);
  const int64_t steps =
      t.rows / kChainRows * (t.columns / (kChainPanels * kPanel)) * (t.k / kChainStep);
  if (lines == 0) return ChainRows<0, kTransposed>(t);
  if (lines <= steps) return ChainRows<1, kTransposed>(t);
  ChainRows<2, kTransposed>(t); // further lines are not prefetched
}

void Chains(const ChainCall& t) {
  t.a_step == 1 ? ChainLines<false>(t) : ChainLines<true>(t);
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

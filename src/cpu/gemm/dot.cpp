// Computes the places of rounded activations, and checks the int8 kernel.

#include "cpu/gemm/dot.h"

#include "base/error.h"
#include "base/threads/parallel.h"
#include "cpu/kernel.h"
#include "cpu/memory.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace dllm::cpu {
namespace {

constexpr int64_t kLine = kAlignment;

} // namespace

RoundedRows rounded_rows(const Gemm& g) {
  RoundedRows rows;
  int64_t at = 0;
  std::byte* base = g.rounded;
  const auto place = [&](int64_t bytes) {
    const int64_t offset = at;
    at += align_up(bytes);
    return base == nullptr ? nullptr : base + offset;
  };
  if (g.layout == PanelLayout::quads) {
    rows.blocks = g.b_format == nullptr ? 1 : g.k / g.b_format->block;
    rows.scale = reinterpret_cast<float*>(place(4 * g.m * rows.blocks));
    rows.start = reinterpret_cast<int32_t*>(place(4 * g.m * rows.blocks));
    rows.plane = align_up(g.k);
    rows.stride = 2 * rows.plane + kLine; // not a power of two, so rows use all sets of a cache
  } else {
    rows.stride = align_up(4 * g.k) + kLine;
  }
  // Tiles need no more bytes per row than `stride`.
  const int64_t whole = (g.m + kAmxTileRows - 1) / kAmxTileRows * kAmxTileRows;
  rows.data = reinterpret_cast<uint8_t*>(place(whole * rows.stride));
  rows.bytes = at;
  return rows;
}

int64_t tile_steps(const Gemm& g) {
  const int64_t numbers = g.layout == PanelLayout::quads ? kLineBytes : kLineBytes / 2;
  return (g.k + numbers - 1) / numbers;
}

uint8_t* tile_row(const Gemm& g, const RoundedRows& rows, int64_t r) {
  return rows.data + r / kAmxTileRows * tile_steps(g) * kAmxTileBytes +
         r % kAmxTileRows * kLineBytes;
}

uint8_t* clear_tile_tail(const Gemm& g, const RoundedRows& rows, int64_t r) {
  const int64_t steps = tile_steps(g), size = g.layout == PanelLayout::quads ? 1 : 2;
  uint8_t* row = tile_row(g, rows, r);
  const int64_t missing = steps * kLineBytes - g.k * size;
  if (missing > 0)
    std::fill_n(row + (steps - 1) * kAmxTileBytes + kLineBytes - missing, missing, uint8_t{0});
  return row;
}

int64_t rounded_bytes(const Gemm& gemm) {
  if (gemm.layout == PanelLayout::elements) return 0;
  Gemm nowhere = gemm;
  nowhere.rounded = nullptr;
  return rounded_rows(nowhere).bytes;
}

void round_activations(const Gemm& gemm, int64_t rows, const Workers& pool) {
  if (gemm.layout == PanelLayout::elements) return;
  const DotKernel kernel = dot_kernel(gemm.layout);
  constexpr int64_t kRows = 16; // whole pieces of a transposed A
  split(pool, (rows + kRows - 1) / kRows, grain_of(kRows * gemm.k / 4),
        [&](int64_t begin, int64_t end) {
          kernel.round(gemm, begin * kRows, std::min(rows, end * kRows));
        });
}

const char* dot_kernel_name(PanelLayout layout) {
  return layout == PanelLayout::elements ? "f32" : dot_kernel(layout).name;
}

bool same_products(const DotKernel& one, const DotKernel& other, PanelLayout layout) {
  constexpr int64_t m = 53, n = 43, k = 203; // incomplete tiles in every direction
  const bool integer = layout == PanelLayout::quads;
  uint32_t state = 1;
  const auto random = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
  std::vector<float> x(m * k), w(n * k), y(m * n), z(m * n);
  std::vector<int8_t> levels(n * k);
  for (float& v : x) v = static_cast<float>(random()) / (1 << 23) - 1;
  for (float& v : w) v = static_cast<float>(random()) / (1 << 23) - 1;
  for (int8_t& v : levels) v = static_cast<int8_t>(random() % 255 - 127);
  const PanelForm form = integer ? PanelForm{DType::i8, nullptr, layout, false}
                                 : PanelForm{DType::f32, nullptr, layout, false};
  std::vector<std::byte> panels(static_cast<size_t>(form.bytes(n, k)));
  pack(form, integer ? static_cast<const void*>(levels.data()) : w.data(), n, k, panels.data(),
       nullptr);
  Gemm g;
  g.a = x.data(), g.a_stride = k, g.c_stride = n;
  g.b = panels.data(), g.b_type = form.dtype, g.layout = layout;
  g.m = m, g.n = n, g.k = k;
  std::vector<std::byte> space(static_cast<size_t>(rounded_bytes(g)));
  g.rounded = space.data();
  for (auto [kernel, to] : {std::pair{&one, &y}, {&other, &z}}) {
    g.c = to->data();
    kernel->round(g, 0, m);
    kernel->part(g, 0, m, 0, panel_count(n));
  }
  const float bound = integer ? 0.0f : 1e-5f * k; // sums of k numbers below 1, in another order
  return std::ranges::equal(y, z, [&](float a, float b) { return std::abs(a - b) <= bound; });
}

void check_int8_kernel() {
  constexpr int64_t m = 11, n = 37, k = 83;
  std::vector<float> x(m * k), y(m * n), expected(m * n);
  std::vector<int8_t> w(n * k);
  // The largest number of every row is 127, so rounding does not change the activations.
  for (int64_t i = 0; i < m * k; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(i % k == 0 ? 127 : i * 89 % 255 - 127);
  for (int64_t i = 0; i < n * k; ++i)
    w[static_cast<size_t>(i)] = static_cast<int8_t>(i % 5 == 0 ? -127 : i * 57 % 255 - 127);
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += static_cast<int32_t>(x[static_cast<size_t>(r * k + i)]) *
               w[static_cast<size_t>(j * k + i)];
      expected[static_cast<size_t>(r * n + j)] = static_cast<float>(sum);
    }
  }
  const PanelForm form = panel_form(kArithmeticInt8, DType::i8, nullptr, k, false);
  std::vector<std::byte> panels(static_cast<size_t>(form.bytes(n, k)));
  pack(form, w.data(), n, k, panels.data(), nullptr);
  Gemm gemm;
  gemm.a = x.data(), gemm.a_stride = k;
  gemm.b = panels.data(), gemm.b_type = DType::i8, gemm.layout = form.layout;
  gemm.c = y.data(), gemm.c_stride = n;
  gemm.m = m, gemm.n = n, gemm.k = k;
  std::vector<std::byte> space(static_cast<size_t>(rounded_bytes(gemm)));
  gemm.rounded = space.data();
  gemm_parallel(gemm, nullptr);
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] == expected[i]) continue;
    fail_with_hint("use arithmetic = f32, and report the chip", Code::internal,
                   "the int8 product {} of this chip gave {} instead of {} at element {}",
                   dot_kernel_name(form.layout), y[i], expected[i], i);
  }
}

} // namespace dllm::cpu

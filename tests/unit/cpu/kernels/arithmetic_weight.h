#pragma once
// Weights packed for an arithmetic, with the numbers they stand for, and what a product in int8
// means.

#include "base/threads/parallel.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/gemm.h"
#include "tensor/weight_format.h"
#include "unit/cpu/uniform_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace dllm::cpu {

// A weight (n, k) of one format, packed for an arithmetic, and the numbers it stands for.
struct ArithmeticWeight {
  const WeightFormat& format;
  PanelForm form;
  int64_t n, k;
  std::vector<std::byte> plain, packed;
  std::vector<float> numbers, scale, bias;

  ArithmeticWeight(const char* name, Arithmetic arithmetic, int64_t rows, int64_t columns)
      : format(weight_format(name)), n(rows), k(columns) {
    form = panel_form(arithmetic, format.is_blocks() ? DType::u8 : format.element,
                      format.is_blocks() ? &format : nullptr, k, false);
    numbers = uniform_numbers(n * k, 7);
    bias = uniform_numbers(n, 5);
    plain.resize(static_cast<size_t>(n * format.row_bytes(k)));
    for (int64_t r = 0; r < n; ++r) {
      std::byte* to = plain.data() + r * format.row_bytes(k);
      float s = 1;
      format.quantize(numbers.data() + r * k, k, to, &s);
      format.dequantize(to, &s, k, numbers.data() + r * k);
      if (format.has_table()) scale.push_back(s);
    }
    packed.resize(static_cast<size_t>(form.bytes(n, k)));
    pack(form, plain.data(), n, k, packed.data(), nullptr);
  }

  Gemm gemm(const std::vector<float>& x, std::vector<float>& y, int64_t m,
            std::vector<std::byte>& space) const {
    Gemm g;
    g.a = x.data(), g.a_stride = k, g.c = y.data(), g.c_stride = n;
    g.m = m, g.n = n, g.k = k;
    g.b = packed.data(), g.b_type = form.dtype, g.b_format = form.format, g.layout = form.layout;
    g.scale = scale.empty() ? nullptr : scale.data();
    g.bias = bias.data();
    space.resize(static_cast<size_t>(rounded_bytes(g)));
    g.rounded = space.data();
    return g;
  }
  std::vector<float> product(const std::vector<float>& x, int64_t m,
                             ThreadPool* pool = nullptr) const {
    std::vector<float> y(static_cast<size_t>(m * n), NAN);
    std::vector<std::byte> space;
    gemm_parallel(gemm(x, y, m, space), pool);
    return y;
  }
  std::vector<float> product(const DotKernel& kernel, const std::vector<float>& x,
                             int64_t m) const {
    std::vector<float> y(static_cast<size_t>(m * n), NAN);
    std::vector<std::byte> space;
    const Gemm g = gemm(x, y, m, space);
    kernel.round(g, 0, m);
    kernel.part(g, 0, m, 0, panel_count(n));
    return y;
  }
};

// What an int8 product means, in integers and f32 operations that round once.
inline std::vector<float> int8_oracle(const ArithmeticWeight& w, const std::vector<float>& x,
                                      int64_t m) {
  std::vector<float> y(static_cast<size_t>(m * w.n));
  const int64_t block = w.form.format == nullptr ? w.k : w.form.format->block;
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t j = 0; j < w.n; ++j) {
      const auto* row =
          reinterpret_cast<const uint8_t*>(w.plain.data()) + j * w.format.row_bytes(w.k);
      float total = 0;
      for (int64_t b = 0; b < w.k; b += block) {
        uint16_t half = 0;
        if (w.form.format != nullptr) {
          std::memcpy(&half, row, sizeof half);
          row += 2;
        }
        float top = 0;
        for (int64_t i = b; i < b + block; ++i) top = std::max(top, std::abs(x[r * w.k + i]));
        const float s = top / 127.0f, inverse = 1.0f / s;
        int32_t sum = 0;
        for (int64_t i = 0; i < block; ++i)
          sum += static_cast<int32_t>(std::nearbyint(x[r * w.k + b + i] * inverse)) *
                 static_cast<int8_t>(row[i]);
        row += block;
        total = w.form.format == nullptr
                    ? static_cast<float>(sum) * s
                    : std::fma(static_cast<float>(sum) * s, f16_to_f32(half), total);
      }
      if (!w.scale.empty()) total *= w.scale[static_cast<size_t>(j)];
      y[r * w.n + j] = total + w.bias[static_cast<size_t>(j)];
    }
  }
  return y;
}

} // namespace dllm::cpu

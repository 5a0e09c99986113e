// Question: what share of the f32 peak does the packed product reach, per shape, row count and
// weight type, next to oneDNN (when built with it) or Eigen? Everything is timed in one run, best
// of many short repetitions.
//   bench_gemm [threads] [--quick] [--avx2]    (--avx2: as on a chip without AVX-512)
//   bench_gemm --blocks ...                    block formats next to f32, int8, and dequantizing
//   before an f32 product
//   bench_gemm --arithmetic ...                a table: f32, bf16, int8 and q8_0, each as a share
//   of its peak and next to the peer
// The engine's arrays lie in huge pages; for those of this program:
// GLIBC_TUNABLES=glibc.malloc.hugetlb=1 bench_gemm ...

#include "base/threads/parallel.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "other_gemm.h"
#include "timing.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace {

using dllm::DType;

struct MatrixShape {
  int64_t n, k;
};

std::vector<float> numbers(int64_t count) {
  std::vector<float> made(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& x : made) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
  return made;
}

std::vector<std::byte> packed_weights(DType dtype, const std::vector<float>& w, MatrixShape s) {
  std::vector<std::byte> plain(w.size() * static_cast<size_t>(dllm::dtype_size(dtype)));
  if (dtype == DType::i8) {
    for (size_t i = 0; i < w.size(); ++i)
      plain[i] = static_cast<std::byte>(static_cast<int8_t>(w[i] * 127.0f));
  } else {
    dllm::convert(DType::f32, w.data(), dtype, plain.data(), static_cast<int64_t>(w.size()));
  }
  std::vector<std::byte> packed(static_cast<size_t>(dllm::cpu::packed_bytes(s.n, s.k, dtype)));
  dllm::cpu::pack(dtype, plain.data(), s.k, s.n, s.k, packed.data(), nullptr);
  return packed;
}

std::vector<std::byte> packed_blocks(const dllm::WeightFormat& format, const std::vector<float>& w,
                                     MatrixShape s) {
  std::vector<std::byte> plain(static_cast<size_t>(s.n * format.row_bytes(s.k)));
  for (int64_t r = 0; r < s.n; ++r)
    format.quantize(w.data() + r * s.k, s.k, plain.data() + r * format.row_bytes(s.k), nullptr);
  std::vector<std::byte> packed(static_cast<size_t>(dllm::cpu::packed_bytes(format, s.n, s.k)));
  dllm::cpu::pack(format, plain.data(), s.n, s.k, packed.data(), nullptr);
  return packed;
}

void measure(MatrixShape s, double peak, dllm::ThreadPool* pool, bool quick) {
  const double budget = quick ? 0.05 : 0.3;
  const int threads = pool->threads();
  const std::vector<float> w = numbers(s.n * s.k);
  const DType types[] = {DType::f32, DType::bf16, DType::i8};
  std::vector<std::byte> packed[3];
  for (int i = 0; i < 3; ++i) packed[i] = packed_weights(types[i], w, s);
  std::vector<const dllm::WeightFormat*> formats; // those in blocks that fit
  std::vector<std::vector<std::byte>> blocks;
  for (const dllm::WeightFormat* format : dllm::weight_formats()) {
    if (!format->is_blocks() || !format->fits(s.k)) continue;
    formats.push_back(format);
    blocks.push_back(packed_blocks(*format, w, s));
  }
  const std::vector<float> scale(static_cast<size_t>(s.n), 0.01f);
  for (int64_t m : {1, 4, 8, 16, 32, 64, 256}) {
    const std::vector<float> x = numbers(m * s.k);
    std::vector<float> y(static_cast<size_t>(m * s.n));
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    std::printf("%6lld x %-5lld m %-4lld", static_cast<long long>(s.n), static_cast<long long>(s.k),
                static_cast<long long>(m));
    for (int i = 0; i < 3; ++i) {
      dllm::cpu::Gemm g;
      g.a = x.data(), g.a_stride = s.k, g.b = packed[i].data(), g.b_type = types[i];
      g.c = y.data(), g.c_stride = s.n, g.m = m, g.n = s.n, g.k = s.k;
      if (types[i] == DType::i8) g.scale = scale.data();
      const double rate =
          flops / best_seconds(threads, budget, [&] { dllm::cpu::gemm_parallel(g, pool); });
      std::printf("  %-4s %6.1f GF/s %3.0f%%", dllm::dtype_name(types[i]), rate / 1e9,
                  100 * rate / peak);
    }
    for (size_t i = 0; i < formats.size(); ++i) {
      dllm::cpu::Gemm g;
      g.a = x.data(), g.a_stride = s.k, g.b = blocks[i].data(), g.b_format = formats[i];
      g.c = y.data(), g.c_stride = s.n, g.m = m, g.n = s.n, g.k = s.k;
      const double rate =
          flops / best_seconds(threads, budget, [&] { dllm::cpu::gemm_parallel(g, pool); });
      std::printf("  %-4s %6.1f GF/s %3.0f%%", formats[i]->name, rate / 1e9, 100 * rate / peak);
    }
    OtherGemm other(DType::f32, x.data(), w.data(), y.data(), m, s.n, s.k, threads);
    const double rate = flops / best_seconds(threads, budget, [&] { other.run(); });
    std::printf("  %s f32 %6.1f GF/s %3.0f%%\n", OtherGemm::name(), rate / 1e9, 100 * rate / peak);
  }
}

dllm::cpu::Gemm product_of(const std::vector<float>& x, std::vector<float>& y, int64_t m,
                           MatrixShape s) {
  dllm::cpu::Gemm g;
  g.a = x.data(), g.a_stride = s.k;
  g.c = y.data(), g.c_stride = s.n, g.m = m, g.n = s.n, g.k = s.k;
  return g;
}

// Products with one block format, next to f32, int8, and f32 panels that are made of the blocks for
// each product.
void measure_blocks(MatrixShape s, const dllm::WeightFormat& format, dllm::ThreadPool* pool,
                    bool quick) {
  const std::vector<float> w = numbers(s.n * s.k), scale(static_cast<size_t>(s.n), 0.01f);
  const std::vector<std::byte> f32 = packed_weights(DType::f32, w, s),
                               i8 = packed_weights(DType::i8, w, s),
                               blocks = packed_blocks(format, w, s);
  std::vector<float> plain(w.size());
  std::vector<std::byte> panels(f32.size());
  for (int64_t m : {1, 2, 4, 8, 16, 32, 256}) {
    const std::vector<float> x = numbers(m * s.k);
    std::vector<float> y(static_cast<size_t>(m * s.n));
    dllm::cpu::Gemm as_f32 = product_of(x, y, m, s), as_i8 = as_f32, as_blocks = as_f32,
                    after = as_f32;
    as_f32.b = f32.data();
    as_i8.b = i8.data(), as_i8.b_type = DType::i8, as_i8.scale = scale.data();
    as_blocks.b = blocks.data(), as_blocks.b_format = &format;
    after.b = panels.data();
    const std::vector<double> seconds = best_seconds_of(
        pool->threads(), quick ? 0.05 : 0.3,
        {[&] { dllm::cpu::gemm_parallel(as_f32, pool); },
         [&] { dllm::cpu::gemm_parallel(as_i8, pool); },
         [&] { dllm::cpu::gemm_parallel(as_blocks, pool); },
         [&] {
           for (int64_t r = 0; r < s.n; ++r)
             dllm::cpu::packed_row(format, blocks.data(), s.k, r, plain.data() + r * s.k);
           dllm::cpu::pack(DType::f32, plain.data(), s.k, s.n, s.k, panels.data(), pool);
           dllm::cpu::gemm_parallel(after, pool);
         }});
    std::printf("%6lld x %-5lld m %-4lld us: f32 %8.1f  i8 %8.1f  %s %8.1f  dequantized first "
                "%8.1f   f32 / %s %.2f\n",
                static_cast<long long>(s.n), static_cast<long long>(s.k), static_cast<long long>(m),
                1e6 * seconds[0], 1e6 * seconds[1], format.name, 1e6 * seconds[2], 1e6 * seconds[3],
                format.name, seconds[0] / seconds[2]);
  }
}

// Operations per second of dot products in registers, on all threads at once.
double peak_of(dllm::cpu::PanelLayout layout, dllm::ThreadPool* pool) {
  if (layout == dllm::cpu::PanelLayout::elements)
    return dllm::cpu::measure_peak_flops(pool, pool->threads());
  const dllm::cpu::DotKernel kernel = dllm::cpu::dot_kernels(layout).front();
  std::vector<float> sinks(static_cast<size_t>(pool->threads()) * 16, 1.0f);
  constexpr int64_t kRounds = int64_t{1} << 18;
  int64_t done = 0;
  const double seconds = best_seconds(pool->threads(), 0.2, [&] {
    dllm::parallel(pool, pool->threads(), [&](int64_t i) {
      const int64_t made = kernel.chains(kRounds, &sinks[static_cast<size_t>(i) * 16]);
      if (i == 0) done = made;
    });
  });
  return 2.0 * static_cast<double>(done) * pool->threads() / seconds;
}

// As an engine allocates: at a multiple of 64 bytes.
class AlignedBytes {
public:
  std::byte* resize(int64_t bytes) {
    bytes_.assign(static_cast<size_t>(bytes) + 64, std::byte{0});
    return data();
  }
  std::byte* data() {
    return bytes_.data() + (64 - reinterpret_cast<uintptr_t>(bytes_.data()) % 64) % 64;
  }

private:
  std::vector<std::byte> bytes_;
};

struct ArithmeticColumn {
  const char* name;
  dllm::Arithmetic arithmetic;
  const char* format;
  DType peer; // with the same operands; u8: none
};
constexpr ArithmeticColumn kColumns[] = {{"f32", dllm::kArithmeticF32, "f32", DType::f32},
                                         {"bf16", dllm::kArithmeticBf16, "bf16", DType::bf16},
                                         {"int8", dllm::kArithmeticInt8, "int8", DType::i8},
                                         {"q8_0", dllm::kArithmeticInt8, "q8_0", DType::u8}};

// A weight in the panels of one arithmetic.
struct PackedWeight {
  dllm::cpu::PanelForm form;
  AlignedBytes panels;
  double peak;

  PackedWeight(const ArithmeticColumn& column, const std::vector<float>& w, MatrixShape s,
               dllm::ThreadPool* pool) {
    const dllm::WeightFormat& format = dllm::weight_format(column.format);
    std::vector<std::byte> plain(static_cast<size_t>(s.n * format.row_bytes(s.k)));
    float unused = 0;
    for (int64_t r = 0; r < s.n; ++r)
      format.quantize(w.data() + r * s.k, s.k, plain.data() + r * format.row_bytes(s.k), &unused);
    const bool blocks = format.is_blocks();
    form = dllm::cpu::panel_form(column.arithmetic, blocks ? DType::u8 : format.element,
                                 blocks ? &format : nullptr, s.k, false);
    dllm::cpu::pack(form, plain.data(), s.n, s.k, panels.resize(form.bytes(s.n, s.k)), pool);
    peak = peak_of(form.layout, pool);
  }
};

// One cell: our share of the peak, the peer's, and the ratio of the rates. Rounding our activations
// is part of our time; the peer's are rounded before.
void print_cell(double flops, double peak, double ours, double theirs) {
  std::printf(" %.0f (%.0f %%)", flops / ours / 1e9, 100 * flops / ours / peak);
  if (theirs > 0) {
    std::printf(", %.0f %%: %.2f |", 100 * flops / theirs / peak, theirs / ours);
  } else {
    std::printf(" |");
  }
}

// A line of the table per row count: each arithmetic next to the peer, in turns.
void measure_arithmetics(MatrixShape s, dllm::ThreadPool* pool, bool quick) {
  const std::vector<float> w = numbers(s.n * s.k), scale(static_cast<size_t>(s.n), 0.01f);
  std::vector<PackedWeight> weights;
  for (const ArithmeticColumn& column : kColumns) weights.emplace_back(column, w, s, pool);
  for (int64_t m : {1, 4, 16, 32, 256, 2048}) {
    if (m * s.n > int64_t{1} << 26) continue; // 256 MB of results
    const std::vector<float> x = numbers(m * s.k);
    std::vector<float> y(static_cast<size_t>(m * s.n));
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    std::printf("| %lld x %lld | %lld |", static_cast<long long>(s.n), static_cast<long long>(s.k),
                static_cast<long long>(m));
    for (size_t i = 0; i < weights.size(); ++i) {
      PackedWeight& weight = weights[i];
      dllm::cpu::Gemm g = product_of(x, y, m, s);
      g.b = weight.panels.data(), g.b_type = weight.form.dtype, g.b_format = weight.form.format;
      g.layout = weight.form.layout;
      if (g.b_type == DType::i8) g.scale = scale.data();
      AlignedBytes space;
      g.rounded = space.resize(dllm::cpu::rounded_bytes(g));
      std::vector<std::function<void()>> calls{[g, pool] { dllm::cpu::gemm_parallel(g, pool); }};
      std::unique_ptr<OtherGemm> other;
      if (kColumns[i].peer != DType::u8 && OtherGemm::has(kColumns[i].peer)) {
        other = std::make_unique<OtherGemm>(kColumns[i].peer, x.data(), w.data(), y.data(), m, s.n,
                                            s.k, pool->threads());
        calls.push_back([&] { other->run(); });
      }
      const std::vector<double> seconds =
          best_seconds_of(pool->threads(), quick ? 0.05 : 0.3, calls);
      print_cell(flops, weight.peak, seconds[0], other == nullptr ? 0 : seconds[1]);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

} // namespace

int main(int argc, char** argv) {
  int threads = dllm::allowed_cpus();
  bool quick = false, blocks = false, arithmetic = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--blocks") == 0) {
      blocks = true;
    } else if (std::strcmp(argv[i], "--arithmetic") == 0) {
      arithmetic = true;
    } else if (std::strcmp(argv[i], "--avx2") == 0) {
      hwy::SetSupportedTargetsForTest(HWY_AVX2);
      hwy::GetChosenTarget().Update(HWY_AVX2);
    } else if ((threads = std::atoi(argv[i])) < 1) {
      std::fprintf(stderr, "bench_gemm [threads] [--quick] [--avx2] [--blocks | --arithmetic]\n");
      return 2;
    }
  }
  dllm::ThreadPool pool(threads);
  const double peak = dllm::cpu::measure_peak_flops(&pool, threads);
  std::printf("%s, %d threads, peak %.1f GF/s\n", dllm::cpu::simd_target(), threads, peak / 1e9);
  if (arithmetic) {
    for (const auto layout : {dllm::cpu::PanelLayout::pairs, dllm::cpu::PanelLayout::quads})
      std::printf("kernel %s\n", dllm::cpu::dot_kernel_name(layout));
    std::printf("peer %s\n| weight | rows |", OtherGemm::name());
    for (const ArithmeticColumn& column : kColumns) std::printf(" %s |", column.name);
    std::printf("\n|---|---|---|---|---|---|\n");
    for (MatrixShape s : {MatrixShape{896, 896}, {4864, 896}, {896, 4864}, {151936, 896}})
      measure_arithmetics(s, &pool, quick);
    return 0;
  }
  for (MatrixShape s : {MatrixShape{896, 896},
                        {4864, 896},
                        {896, 4864},
                        {1024, 1024},
                        {2048, 2048},
                        {32768, 896}}) {
    if (!blocks) measure(s, peak, &pool, quick);
    for (const dllm::WeightFormat* format : dllm::weight_formats()) {
      if (blocks && format->is_blocks() && format->fits(s.k))
        measure_blocks(s, *format, &pool, quick);
    }
  }
  return 0;
}

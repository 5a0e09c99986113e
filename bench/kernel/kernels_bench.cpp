// Question: what do the fused kernels cost at the shapes of a small and of a half-billion-parameter
// model, as a share of the f32 peak measured in the same run (attention, cross entropy) or as bytes
// per second (rows, optimizer)?
//   bench_kernels [threads] [words of the rows to print...]

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "timing.h"
#include "unit/cpu/kernels/run_kernel.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using namespace dllm;
using namespace dllm::cpu;

struct Bench {
  int threads;
  double peak;
  std::vector<std::string> words;

  bool wanted(const std::string& name) const {
    for (const std::string& word : words) {
      if (name.find(word) == std::string::npos) return false;
    }
    return true;
  }

  // flops 0: `bytes` counts instead.
  void report(const std::string& name, KernelSetup setup, double flops, double bytes) const {
    if (!wanted(name)) return;
    setup.threads = threads;
    KernelRunner runner(setup);
    const double seconds = best_seconds(threads, 0.4, [&] { runner.run(); });
    std::printf("%-58s %9.3f ms", name.c_str(), seconds * 1e3);
    if (flops > 0) {
      std::printf("  %6.1f GF/s %3.0f%%\n", flops / seconds / 1e9, 100 * flops / seconds / peak);
    } else {
      std::printf("  %6.1f GB/s\n", bytes / seconds / 1e9);
    }
  }
};

void attention(const Bench& bench, int64_t batch, int64_t queries, int64_t keys, int64_t heads,
               int64_t kv_heads, const char* kinds) {
  const int64_t dim = 64;
  char label[128];
  std::snprintf(label, sizeof label, "attention %s %lldx%lldx%lld heads %lld/%lld", kinds,
                static_cast<long long>(batch), static_cast<long long>(queries),
                static_cast<long long>(keys), static_cast<long long>(heads),
                static_cast<long long>(kv_heads));
  KernelSetup setup;
  setup.factory = find_kernel("attention");
  setup.inputs = {random_tensor({batch, queries, heads, dim}, 1),
                  random_tensor({batch, keys, kv_heads, dim}, 2),
                  random_tensor({batch, keys, kv_heads, dim}, 3)};
  setup.outputs = {f32_type({batch, queries, heads, dim}), f32_type({batch, heads, queries})};
  setup.attributes = {{"kinds", std::string(kinds)},
                      {"has_query_start", false},
                      {"scale", 0.125},
                      {"softcap", 0.0},
                      {"empty_average", false}};
  if (std::strcmp(kinds, "segments") == 0) {
    setup.inputs.push_back(Tensor(DType::i32, {batch, queries}));
    setup.inputs.push_back(Tensor(DType::i32, {batch, keys}));
  }
  const double live = std::strcmp(kinds, "causal") == 0 ? 0.5 : 1.0;
  const double flops = 4.0 * live * static_cast<double>(batch * heads * queries * keys * dim);
  bench.report(label, setup, flops, 0);
  if (queries != keys) return;
  const std::vector<Tensor> out = run_kernel(setup);
  setup.factory = find_kernel("attention_grad");
  setup.inputs.insert(setup.inputs.begin() + 3, {out[0], out[1], random_tensor(out[0].shape(), 5)});
  setup.outputs = {f32_type(setup.inputs[0].shape()), f32_type(setup.inputs[1].shape()),
                   f32_type(setup.inputs[2].shape())};
  bench.report(std::string("grad of ") + label, setup, 2.5 * flops, 0);
}

void head(const Bench& bench, int64_t rows, int64_t in, int64_t vocab) {
  const std::string shape =
      std::to_string(rows) + " rows " + std::to_string(in) + " -> " + std::to_string(vocab);
  const double flops = 2.0 * static_cast<double>(rows * in) * static_cast<double>(vocab);
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < rows; ++r) targets.push_back(static_cast<int32_t>(r * 37 % vocab));
  KernelSetup setup{find_kernel("linear_cross_entropy"),
                    {random_tensor({rows, in}, 1), random_tensor({vocab, in}, 2, 0.1f),
                     Tensor::from(Shape{rows}, targets)},
                    {f32_type({rows}), f32_type({rows})},
                    {{"has_bias", false},
                     {"has_scale", false},
                     {"has_count", false},
                     {"softcap", 0.0},
                     {"want_weight", true},
                     {"want_bias", false}}};
  setup.keeps_forms = {false, true, false};
  bench.report("cross entropy " + shape, setup, flops, 0);
  KernelSetup grad = setup;
  grad.factory = find_kernel("linear_cross_entropy_grad");
  grad.inputs.push_back(Tensor(DType::f32, {rows}));
  grad.inputs.push_back(random_tensor({rows}, 3));
  grad.keeps_forms = {false, true, false, false, false};
  grad.outputs = {f32_type({rows, in}), f32_type({vocab, in})};
  bench.report("grad of cross entropy " + shape, grad, 3 * flops, 0);
  for (const bool filters : {false, true}) {
    KernelSetup statistics{
        find_kernel("token_statistics"),
        {setup.inputs[0], setup.inputs[1],
         Tensor::from(Shape{rows}, std::vector<float>(rows, 0.8f)),
         Tensor::from(Shape{rows}, std::vector<int32_t>(rows, 0)),
         Tensor::from(Shape{rows}, std::vector<float>(rows, filters ? 0.95f : 1.0f)),
         Tensor::from(Shape{rows}, std::vector<float>(rows, 0.5f))},
        {i32_type({rows}), f32_type({rows}), f32_type({rows}), f32_type({rows}),
         i32_type({rows, 8}), f32_type({rows, 8}), i32_type({rows}), f32_type({rows}),
         f32_type({rows}), f32_type({rows}), f32_type({rows})},
        {{"has_bias", false},
         {"has_scale", false},
         {"has_count", false},
         {"softcap", 0.0},
         {"has_noise", false},
         {"has_banned", false},
         {"nucleus_first", false},
         {"shaped", false},
         {"top", int64_t{8}}}};
    statistics.keeps_forms = {false, true, false, false, false, false};
    bench.report(std::string("token statistics ") + (filters ? "top-p " : "") + shape, statistics,
                 flops, 0);
  }
}

void linear_weight_grad(const Bench& bench, int64_t rows, int64_t out, int64_t in) {
  const KernelSetup setup{find_kernel("linear_weight_grad"),
                          {random_tensor({rows, out}, 1), random_tensor({rows, in}, 2)},
                          {f32_type({out, in})},
                          {}};
  bench.report("linear weight grad " + std::to_string(rows) + " rows " + std::to_string(out) +
                   " x " + std::to_string(in),
               setup, 2.0 * static_cast<double>(rows * out * in), 0);
}

void row_kernels(const Bench& bench, int64_t rows, int64_t n) {
  const std::string shape = std::to_string(rows) + " x " + std::to_string(n);
  const double bytes = 4.0 * static_cast<double>(rows * n);
  const Tensor x = random_tensor({rows, n}, 1), y = random_tensor({rows, n}, 2),
               w = random_tensor({n}, 3);
  const auto type = f32_type({rows, n});
  const graph::Attributes norm = {{"has_weight", true}, {"has_bias", false}, {"eps", 1e-5}};
  bench.report("rms norm " + shape, {find_kernel("rms_norm"), {x, w}, {type}, norm}, 0, 2 * bytes);
  bench.report("grad of rms norm " + shape,
               {find_kernel("rms_norm_grad"), {x, y, w}, {type, f32_type({n})}, norm}, 0,
               3 * bytes);
  bench.report("layer norm " + shape, {find_kernel("layer_norm"), {x, w}, {type}, norm}, 0,
               2 * bytes);
  bench.report("silu gate " + shape,
               {find_kernel("gated_activation"), {x, y}, {type}, {{"kind", std::string("silu")}}},
               0, 3 * bytes);
  bench.report("gelu gate " + shape,
               {find_kernel("gated_activation"), {x, y}, {type}, {{"kind", std::string("gelu")}}},
               0, 3 * bytes);
}

void optimizer(const Bench& bench, int64_t count) {
  const Tensor x = random_tensor({count}, 1),
               ones = Tensor::from(Shape{count}, std::vector<float>(count, 1.0f));
  const Tensor scalars =
      Tensor::from(Shape{8}, std::vector<float>{0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.4f, 0.3f, 0.5f});
  const auto type = f32_type({count});
  bench.report("adamw " + std::to_string(count),
               {find_kernel("adamw_update"),
                {x, x, x, ones, scalars},
                {type, type, type},
                {{"decay", true}}},
               0, 28.0 * count);
  bench.report("sum of squares " + std::to_string(count),
               {find_kernel("sum_of_squares"), {x}, {f32_type({})}, {}}, 0, 4.0 * count);
}

} // namespace

int main(int argc, char** argv) {
  Bench bench{1, 0, {}};
  for (int i = 1; i < argc; ++i) {
    const int number = std::atoi(argv[i]);
    if (number > 0)
      bench.threads = number;
    else
      bench.words.push_back(argv[i]);
  }
  ThreadPool pool(bench.threads);
  bench.peak = measure_peak_flops(&pool, bench.threads);
  std::printf("%s, %d threads, peak %.1f GF/s\n", simd_target(), bench.threads, bench.peak / 1e9);
  attention(bench, 1, 32, 1024, 14, 2, "full");
  attention(bench, 1, 256, 256, 14, 2, "full");
  attention(bench, 4, 128, 128, 6, 6, "full");
  attention(bench, 1, 1024, 1024, 8, 8, "causal");
  attention(bench, 4, 256, 256, 8, 8, "segments");
  head(bench, 1024, 256, 4096);
  head(bench, 32, 896, 151936);
  linear_weight_grad(bench, 2048, 768, 768);
  linear_weight_grad(bench, 512, 1024, 256);
  row_kernels(bench, 512, 896);
  optimizer(bench, 16 << 20);
  return 0;
}

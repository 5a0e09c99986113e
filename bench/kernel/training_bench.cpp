// Question: how near are the gradients of a product with a trained weight to the same product with
// a frozen one? A frozen weight is packed once; in a training step the weight is packed for dX, the
// activations for dW, and both round their operands.
//   bench_training [threads] [--rows N] [--quick]
//   bench_training --packing [threads]    what packing a weight takes: 12 of them in turns, as a
//   step meets its layers
// One line per shape and arithmetic: GFLOP/s of y = x w^T with frozen panels, of dX and of dW as a
// training step runs them, dX and dW over the forward rate. The head's gradients run in one
// operation with its loss: three products, over three times the forward rate.

#include "cpu/kernel.h"
#include "cpu/memory.h"
#include "timing.h"
#include "unit/cpu/kernels/run_kernel.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace {

using namespace dllm;
using namespace dllm::cpu;

struct Bench {
  int threads;
  int64_t rows;
  double budget;
};

constexpr std::pair<int64_t, int64_t> kLayerShapes[] = {{768, 768}, {3072, 768}, {768, 3072}};

KernelSetup product_setup(const Bench& bench, const char* op, Arithmetic arithmetic) {
  KernelSetup setup;
  setup.factory = find_kernel(op);
  setup.threads = bench.threads;
  setup.arithmetic = arithmetic;
  setup.attributes = {{"has_bias", false}, {"has_scale", false}};
  return setup;
}

void print_rates(const char* arithmetic, int64_t out, int64_t in, double flops,
                 const std::vector<double>& seconds) {
  std::printf("| %lld x %lld | %s | %.0f |", static_cast<long long>(out),
              static_cast<long long>(in), arithmetic, flops / seconds[0] / 1e9);
  for (size_t i = 1; i < seconds.size(); ++i)
    std::printf(" %.0f | %.2f |", flops / seconds[i] / 1e9, seconds[0] / seconds[i]);
  std::printf("\n");
  std::fflush(stdout);
}

double flops_of(const Bench& bench, int64_t out, int64_t in) {
  return 2.0 * static_cast<double>(bench.rows) * static_cast<double>(out) * static_cast<double>(in);
}

void layer(const Bench& bench, const char* name, Arithmetic arithmetic, int64_t out, int64_t in) {
  const Tensor x = random_tensor({bench.rows, in}, 1), w = random_tensor({out, in}, 2, 0.02f),
               dy = random_tensor({bench.rows, out}, 3);
  KernelSetup forward = product_setup(bench, "linear", arithmetic);
  forward.inputs = {x, w};
  forward.outputs = {f32_type({bench.rows, out})};
  forward.keeps_forms = {false, true};
  KernelSetup to_input = product_setup(bench, "linear_input_grad", arithmetic);
  to_input.inputs = {dy, w};
  to_input.outputs = {f32_type({bench.rows, in})};
  KernelSetup to_weight = product_setup(bench, "linear_weight_grad", arithmetic);
  to_weight.inputs = {dy, x};
  to_weight.outputs = {f32_type({out, in})};
  KernelRunner y(forward), dx(to_input), dw(to_weight);
  print_rates(name, out, in, flops_of(bench, out, in),
              best_seconds_of(bench.threads, bench.budget,
                              {[&] { y.run(); }, [&] { dx.run(); }, [&] { dw.run(); }}));
}

void head(const Bench& bench, const char* name, Arithmetic arithmetic, int64_t vocab, int64_t in) {
  const Tensor x = random_tensor({bench.rows, in}, 1), w = random_tensor({vocab, in}, 2, 0.02f);
  KernelSetup forward = product_setup(bench, "linear", arithmetic);
  forward.inputs = {x, w};
  forward.outputs = {f32_type({bench.rows, vocab})};
  forward.keeps_forms = {false, true};
  KernelSetup loss = product_setup(bench, "linear_cross_entropy_with_grad", arithmetic);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < bench.rows; ++i) targets.push_back(static_cast<int32_t>(i * 17 % vocab));
  loss.inputs = {x, w, Tensor::from({bench.rows}, targets), random_tensor({bench.rows}, 4)};
  loss.outputs = {f32_type({bench.rows}), f32_type({bench.rows}), f32_type({bench.rows, in}),
                  f32_type({vocab, in})};
  loss.attributes = {{"has_bias", false},   {"has_scale", false}, {"has_count", false},
                     {"want_weight", true}, {"want_bias", false}, {"softcap", 0.0}};
  KernelRunner y(forward), all(loss);
  std::vector<double> seconds =
      best_seconds_of(bench.threads, bench.budget, {[&] { y.run(); }, [&] { all.run(); }});
  seconds[1] /= 3;
  print_rates(name, vocab, in, flops_of(bench, vocab, in), seconds);
}

void packing(const Bench& bench, const char* name, Arithmetic arithmetic, int64_t out, int64_t in) {
  constexpr int kLayers = 12;
  ThreadPool pool(bench.threads);
  // As an engine allocates weights: in large pages.
  const auto ledger = std::make_shared<MemoryLedger>();
  const Block weights(ledger, kLayers * out * in * 4, "weights");
  const Tensor layer = random_tensor({out, in}, 2, 0.02f);
  for (int64_t i = 0; i < kLayers; ++i)
    std::memcpy(weights.data() + i * layer.byte_size(), layer.bytes(),
                static_cast<size_t>(layer.byte_size()));
  std::printf("| %lld x %lld | %s |", static_cast<long long>(out), static_cast<long long>(in),
              name);
  for (const bool transposed : {false, true}) {
    const PanelForm form = panel_form(arithmetic, DType::f32, nullptr, in, transposed);
    const Block panels(ledger, form.bytes(out, in), "panels");
    const double seconds = best_seconds(bench.threads, bench.budget, [&] {
      for (int64_t i = 0; i < kLayers; ++i)
        pack(form, weights.data() + i * layer.byte_size(), out, in, panels.data(), &pool);
    });
    std::printf(" %.2f |", 1e9 * seconds / static_cast<double>(kLayers * out * in));
  }
  std::printf("\n");
}

} // namespace

int main(int argc, char** argv) {
  Bench bench{1, 2048, 1.0};
  bool packs = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      bench.budget = 0.2;
    } else if (std::strcmp(argv[i], "--packing") == 0) {
      packs = true;
    } else if (std::strcmp(argv[i], "--rows") == 0 && i + 1 < argc) {
      bench.rows = std::atoll(argv[++i]);
    } else {
      bench.threads = std::atoi(argv[i]);
    }
  }
  constexpr struct {
    const char* name;
    Arithmetic arithmetic;
  } kArithmetics[] = {{"f32", kArithmeticF32}, {"bf16", kArithmeticBf16}};
  if (packs) {
    std::printf("| weight | arithmetic | forward panels, ns a number | of the transpose |\n"
                "|---|---|---|---|\n");
    for (const auto& [name, arithmetic] : kArithmetics) {
      for (const auto& [out, in] : kLayerShapes) packing(bench, name, arithmetic, out, in);
    }
    return 0;
  }
  std::printf("%lld rows, %d threads, bf16 by %s\n", static_cast<long long>(bench.rows),
              bench.threads, dot_kernel_name(PanelLayout::pairs));
  std::printf("| weight | arithmetic | forward | dX | dX / forward | dW | dW / forward |\n"
              "|---|---|---|---|---|---|---|\n");
  for (const auto& [name, arithmetic] : kArithmetics) {
    for (const auto& [out, in] : kLayerShapes) layer(bench, name, arithmetic, out, in);
    head(bench, name, arithmetic, 50257, 768);
  }
  return 0;
}

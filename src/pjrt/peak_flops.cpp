// Measures how fast one device multiplies matrices.

#include "pjrt/engine_state.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace dllm::pjrt {

namespace {

constexpr int kRuns = 3;

struct Chain {
  int64_t size; // rows of the square matrices
  int products; // one after the other
};

const char* precision_word(const std::string& precision) {
  return precision == "highest" ? "HIGHEST" : precision == "high" ? "HIGH" : "DEFAULT";
}

std::string chain_text(const Chain& chain, const EmitOptions& options) {
  const std::string element = dtype_name(options.compute);
  const std::string type = fmt::format("tensor<{0}x{0}x{1}>", chain.size, element);
  const std::string sum = fmt::format("tensor<{0}x{0}xf32>", chain.size);
  const char* word = precision_word(options.precision);
  std::string text = fmt::format("func.func public @main(%x0: {0}, %w: {0}) -> {0} {{\n", type);
  for (int i = 0; i < chain.products; ++i) {
    text += fmt::format(" %s{0} = stablehlo.dot_general %x{0}, %w, contracting_dims = [1] x [0], "
                        "precision = [{1}, {1}] : ({2}, {2}) -> {3}\n"
                        " %x{4} = stablehlo.convert %s{0} : ({3}) -> {2}\n",
                        i, word, type, sum, i + 1);
  }
  return text + fmt::format(" return %x{} : {}\n}}\n", chain.products, type);
}

// Returns a matrix whose product with itself is the matrix again.
Tensor averaging_matrix(int64_t size, DType dtype) {
  Tensor made(DType::f32, {size, size});
  std::ranges::fill(made.mutable_as<float>(), 1.0f / static_cast<float>(size));
  return made.to(dtype);
}

} // namespace

double measure_peak_flops(EngineState& state) {
  const Chain chain = state.on_cpu() ? Chain{1024, 2} : Chain{8192, 8};
  const EmitOptions& options = state.emit_options();
  const auto program = state.build_single(chain_text(chain, options)).executable;
  const Array matrix =
      state.client().upload(averaging_matrix(chain.size, options.compute), state.device());
  const std::vector<const Array*> arguments{&matrix, &matrix};
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) { // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::vector<Array>> results;
    {
      const std::lock_guard lock(state.starting());
      results = program->run(std::span(&arguments, 1));
    }
    await(results.front().front().ready());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (run > 0) best = std::max(best, 1 / seconds.count());
  }
  const auto n = static_cast<double>(chain.size);
  return 2 * n * n * n * chain.products * best;
}

} // namespace dllm::pjrt

// Norms, rope, gated activation and the optimizer against formulas in double; gradients against
// central differences of those formulas; bits against every instruction set and thread count.

#include "cpu/kernel.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace dllm::cpu {
namespace {

using Doubles = std::vector<double>;

void expect_near(const Tensor& got, const Doubles& expected, double tolerance,
                 const std::string& what) {
  const auto values = got.as<float>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1.0 + std::abs(expected[i])))
        << what << " element " << i;
  }
}

// The same bits on every instruction set and for 1, 2, 4 threads.
void expect_invariant(KernelSetup setup) {
  const std::vector<Tensor> first = run_kernel(setup);
  for_each_simd_target([&](const char* target) {
    for (int threads : {1, 2, 4}) {
      setup.threads = threads;
      EXPECT_TRUE(same_bits(run_kernel(setup), first)) << target << ", " << threads << " threads";
    }
  });
}

// d sum(f(x) * dy) / dx by central differences.
Doubles differences(Doubles x, const Doubles& dy, const std::function<Doubles(const Doubles&)>& f) {
  Doubles slope(x.size());
  const auto value = [&] {
    const Doubles y = f(x);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const double keep = x[i], step = 1e-5;
    x[i] = keep + step;
    const double above = value();
    x[i] = keep - step;
    slope[i] = (above - value()) / (2 * step);
    x[i] = keep;
  }
  return slope;
}

struct Norm {
  int64_t n;
  bool centred;
  double eps;

  Doubles operator()(const Doubles& x, const Doubles& w, const Doubles& b) const {
    Doubles y(x.size());
    for (size_t row = 0; row < x.size() / n; ++row) {
      double mean = 0, squares = 0;
      for (int64_t i = 0; i < n; ++i) mean += x[row * n + i] / n;
      if (!centred) mean = 0;
      for (int64_t i = 0; i < n; ++i) squares += std::pow(x[row * n + i] - mean, 2) / n;
      for (int64_t i = 0; i < n; ++i)
        y[row * n + i] = (x[row * n + i] - mean) / std::sqrt(squares + eps) * w[i] + b[i];
    }
    return y;
  }
};

constexpr int64_t kWidths[] = {1, 3, 16, 40, 67};

TEST(Norms, EqualTheFormulas) {
  for (int64_t n : kWidths) {
    const Tensor x = random_tensor({6, n}, 1, 3), w = random_tensor({n}, 2),
                 b = random_tensor({n}, 3);
    const Norm rms{n, false, 1e-5}, layer{n, true, 1e-5};
    KernelSetup setup{
        find_kernel("rms_norm"), {x, w}, {f32_type({6, n})}, {{"has_weight", true}, {"eps", 1e-5}}};
    expect_near(run_kernel(setup)[0], rms(doubles(x), doubles(w), Doubles(n, 0.0)), 2e-6,
                "rms_norm");
    expect_invariant(setup);
    setup.factory = find_kernel("layer_norm");
    setup.inputs.push_back(b);
    setup.attributes.set("has_bias", true);
    expect_near(run_kernel(setup)[0], layer(doubles(x), doubles(w), doubles(b)),
                n == 1 ? 1e-3 : 2e-5, "layer_norm");
    expect_invariant(setup);
  }
}

TEST(Norms, WithoutWeightAreWeightOne) {
  const Tensor x = random_tensor({2, 20}, 1),
               ones = Tensor::from(Shape{20}, std::vector<float>(20, 1.0f));
  const KernelSetup bare{
      find_kernel("rms_norm"), {x}, {f32_type({2, 20})}, {{"has_weight", false}, {"eps", 1e-6}}};
  const KernelSetup with{find_kernel("rms_norm"),
                         {x, ones},
                         {f32_type({2, 20})},
                         {{"has_weight", true}, {"eps", 1e-6}}};
  EXPECT_TRUE(same_bits(run_kernel(bare), run_kernel(with)));
}

TEST(Norms, GradientsEqualDifferences) {
  for (bool centred : {false, true}) {
    for (int64_t n : {3, 16, 37}) {
      const int64_t rows = 21;
      const Tensor x = random_tensor({rows, n}, 1, 2), w = random_tensor({n}, 2),
                   dy = random_tensor({rows, n}, 4);
      const Doubles dx = doubles(x), dw = doubles(w), zero(n, 0.0), g = doubles(dy);
      const Norm norm{n, centred, 1e-3};
      KernelSetup setup{centred ? find_kernel("layer_norm_grad") : find_kernel("rms_norm_grad"),
                        {x, dy, w},
                        {f32_type({rows, n}), f32_type({n})},
                        {{"has_weight", true}, {"has_bias", centred}, {"eps", 1e-3}}};
      if (centred) setup.outputs.push_back(f32_type({n}));
      const std::vector<Tensor> got = run_kernel(setup);
      expect_near(got[0], differences(dx, g, [&](const Doubles& v) { return norm(v, dw, zero); }),
                  2e-4, "dx");
      expect_near(got[1], differences(dw, g, [&](const Doubles& v) { return norm(dx, v, zero); }),
                  2e-4, "dweight");
      if (centred) {
        expect_near(got[2], differences(zero, g, [&](const Doubles& v) { return norm(dx, dw, v); }),
                    2e-4, "dbias");
      }
      expect_invariant(setup);
    }
  }
}

TEST(Rope, TurnsPairsBothWays) {
  const int64_t batch = 2, seq = 3, heads = 2, dim = 22, half = 9;
  const Tensor x = random_tensor({batch, seq, heads, dim}, 1);
  const Tensor positions =
      Tensor::from(Shape{batch, seq}, std::vector<int32_t>{0, 1, 2, 77, 5000, 1000003});
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i)
    frequencies.push_back(std::pow(10000.0f, -static_cast<float>(i) / half));
  const Tensor inv_freq = Tensor::from(Shape{half}, frequencies);
  for (bool interleaved : {false, true}) {
    KernelSetup setup{find_kernel("rope"),
                      {x, positions, inv_freq},
                      {f32_type({batch, seq, heads, dim})},
                      {{"interleaved", interleaved}, {"inverse", false}, {"amplitude", 1.25}}};
    Doubles expected = doubles(x);
    for (int64_t token = 0; token < batch * seq; ++token) {
      for (int64_t head = 0; head < heads; ++head) {
        double* row = &expected[(token * heads + head) * dim];
        for (int64_t i = 0; i < half; ++i) {
          // Peers round the angle to f32 before they take sine and cosine.
          const float angle = static_cast<float>(positions.as<int32_t>()[token]) * frequencies[i];
          double& a = row[interleaved ? 2 * i : i];
          double& b = row[interleaved ? 2 * i + 1 : i + half];
          const double c = 1.25 * std::cos(static_cast<double>(angle)),
                       s = 1.25 * std::sin(static_cast<double>(angle));
          const double turned = a * c - b * s;
          b = b * c + a * s;
          a = turned;
        }
      }
    }
    const std::vector<Tensor> got = run_kernel(setup);
    expect_near(got[0], expected, 1e-6, "rope");
    expect_invariant(setup);
    setup.inputs[0] = got[0];
    setup.attributes.set("inverse", true);
    setup.attributes.set("amplitude", 1 / 1.25);
    expect_near(run_kernel(setup)[0], doubles(x), 1e-6, "rope there and back");
  }
}

double activate(const std::string& kind, double x) {
  if (kind == "silu") return x / (1 + std::exp(-x));
  if (kind == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (kind == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x > 0 ? x : 0;
}

TEST(GatedActivation, EqualsFormulaAndDifferences) {
  for (const std::string kind : {"silu", "gelu", "gelu_tanh", "relu"}) {
    const int64_t n = 131;
    const Tensor gate = random_tensor({n}, 1, 6), up = random_tensor({n}, 2),
                 dy = random_tensor({n}, 3);
    const Doubles g = doubles(gate), u = doubles(up), d = doubles(dy);
    Doubles y(n), dgate(n), dup(n);
    for (int64_t i = 0; i < n; ++i) {
      const double step = 1e-5;
      y[i] = activate(kind, g[i]) * u[i];
      dup[i] = activate(kind, g[i]) * d[i];
      dgate[i] =
          (activate(kind, g[i] + step) - activate(kind, g[i] - step)) / (2 * step) * u[i] * d[i];
    }
    const KernelSetup forward{
        find_kernel("gated_activation"), {gate, up}, {f32_type({n})}, {{"kind", kind}}};
    expect_near(run_kernel(forward)[0], y, 1e-6, kind);
    expect_invariant(forward);
    const KernelSetup backward{find_kernel("gated_activation_grad"),
                               {gate, up, dy},
                               {f32_type({n}), f32_type({n})},
                               {{"kind", kind}}};
    const std::vector<Tensor> got = run_kernel(backward);
    expect_near(got[0], dgate, 1e-5, kind + " dgate");
    expect_near(got[1], dup, 1e-6, kind + " dup");
    expect_invariant(backward);

    // Without a gate: up is 1.
    Doubles alone(n), dx(n);
    for (int64_t i = 0; i < n; ++i) {
      alone[i] = activate(kind, g[i]);
      dx[i] = dgate[i] / u[i];
    }
    const KernelSetup plain{find_kernel("activation"), {gate}, {f32_type({n})}, {{"kind", kind}}};
    expect_near(run_kernel(plain)[0], alone, 1e-6, kind);
    expect_invariant(plain);
    const KernelSetup plain_grad{
        find_kernel("activation_grad"), {gate, dy}, {f32_type({n})}, {{"kind", kind}}};
    expect_near(run_kernel(plain_grad)[0], dx, 1e-5, kind + " dx");
    expect_invariant(plain_grad);
  }
}

TEST(AdamW, EqualsTheFormula) {
  const int64_t n = 100;
  const Tensor p = random_tensor({n}, 1), g = random_tensor({n}, 2),
               m = random_tensor({n}, 3, 0.1f);
  Tensor v = random_tensor({n}, 4, 0.01f);
  for (float& x : v.mutable_as<float>()) x = std::abs(x);
  const std::vector<float> s = {0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.4f, 0.3f, 0.5f};
  for (bool decay : {false, true}) {
    const KernelSetup setup{find_kernel("adamw_update"),
                            {p, g, m, v, Tensor::from(Shape{8}, s)},
                            {f32_type({n}), f32_type({n}), f32_type({n})},
                            {{"decay", decay}}};
    const std::vector<Tensor> got = run_kernel(setup);
    const Doubles dp = doubles(p), dg = doubles(g), dm = doubles(m), dv = doubles(v);
    Doubles p2(n), m2(n), v2(n);
    for (int64_t i = 0; i < n; ++i) {
      const double gradient = dg[i] * 0.5;
      m2[i] = 0.9 * dm[i] + 0.1 * gradient;
      v2[i] = 0.95 * dv[i] + 0.05 * gradient * gradient;
      p2[i] = dp[i] - 0.01 * ((m2[i] / 0.4) / (std::sqrt(v2[i] / 0.3) + 1e-8) +
                              (decay ? 0.1 : 0.0) * dp[i]);
    }
    expect_near(got[0], p2, 1e-6, "parameter");
    expect_near(got[1], m2, 1e-6, "first");
    expect_near(got[2], v2, 1e-6, "second");
    expect_invariant(setup);
  }
}

TEST(SumOfSquares, AddsChunksInOrder) {
  const int64_t n = 65536 * 3 + 77;
  const Tensor x = random_tensor({n}, 1);
  double expected = 0;
  for (double value : doubles(x)) expected += value * value;
  const KernelSetup setup{find_kernel("sum_of_squares"), {x}, {f32_type({})}, {}};
  expect_near(run_kernel(setup)[0], {expected}, 1e-6, "sum_of_squares");
  expect_invariant(setup);
}

} // namespace
} // namespace dllm::cpu

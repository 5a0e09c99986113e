// linear, its gradients and dot against loops in double; bits against every thread count and weight
// form.

#include "cpu/kernel.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"

#include <gtest/gtest.h>

namespace dllm::cpu {
namespace {

void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance,
                 const char* what) {
  const auto values = got.as<float>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1.0 + std::abs(expected[i])))
        << what << " element " << i;
  }
}

Tensor weights(DType dtype, int64_t out, int64_t in) {
  if (dtype != DType::i8) return random_tensor({out, in}, 3).to(dtype);
  Tensor made(DType::i8, {out, in});
  auto bytes = made.mutable_as<int8_t>();
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<int8_t>(static_cast<int>(i * 37 % 255) - 127);
  return made;
}

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::i8};

TEST(Linear, EqualsLoopsForEveryWeightType) {
  const int64_t rows = 5, out = 37, in = 70;
  const Tensor x = random_tensor({rows, in}, 1), bias = random_tensor({out}, 5),
               scale = random_tensor({out}, 6, 0.01f);
  for (DType dtype : kTypes) {
    const Tensor w = weights(dtype, out, in);
    const std::vector<double> dx = doubles(x), dw = doubles(w.to(DType::f32)), db = doubles(bias),
                              ds = doubles(scale);
    std::vector<double> expected(static_cast<size_t>(rows * out));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < out; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < in; ++i) sum += dx[r * in + i] * dw[j * in + i];
        expected[r * out + j] = sum * (dtype == DType::i8 ? ds[j] : 1.0) + db[j];
      }
    }
    KernelSetup setup{find_kernel("linear"),
                      {x, w, bias},
                      {f32_type({rows, out})},
                      {{"has_bias", true}, {"has_scale", false}}};
    if (dtype == DType::i8) {
      setup.inputs.push_back(scale);
      setup.attributes.set("has_scale", true);
    }
    const std::vector<Tensor> first = run_kernel(setup);
    expect_near(first[0], expected, 1e-5, dtype_name(dtype));
    setup.keeps_forms = {false, true, false, false};
    setup.keeps_forms.resize(setup.inputs.size());
    setup.threads = 4;
    EXPECT_TRUE(same_bits(run_kernel(setup), first));
  }
}

TEST(LinearInputGrad, EqualsLoops) {
  const int64_t rows = 9, out = 37, in = 70;
  const Tensor dy = random_tensor({rows, out}, 1), scale = random_tensor({out}, 6, 0.01f);
  for (DType dtype : kTypes) {
    const Tensor w = weights(dtype, out, in);
    const std::vector<double> g = doubles(dy), dw = doubles(w.to(DType::f32)), ds = doubles(scale);
    std::vector<double> expected(static_cast<size_t>(rows * in));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < out; ++j) {
        const double factor = g[r * out + j] * (dtype == DType::i8 ? ds[j] : 1.0);
        for (int64_t i = 0; i < in; ++i) expected[r * in + i] += factor * dw[j * in + i];
      }
    }
    KernelSetup setup{find_kernel("linear_input_grad"),
                      {dy, w},
                      {f32_type({rows, in})},
                      {{"has_scale", dtype == DType::i8}}};
    if (dtype == DType::i8) setup.inputs.push_back(scale);
    const std::vector<Tensor> first = run_kernel(setup);
    expect_near(first[0], expected, 1e-5, dtype_name(dtype));
    setup.keeps_forms = {false, true, false};
    setup.keeps_forms.resize(setup.inputs.size());
    setup.threads = 2;
    EXPECT_TRUE(same_bits(run_kernel(setup), first));
  }
}

TEST(LinearWeightGrad, EqualsLoopsBeyondOneBlockOfRows) {
  for (const auto& [rows, out] :
       {std::pair<int64_t, int64_t>{0, 21}, {1, 21}, {33, 21}, {1500, 21}, {40, 1043}}) {
    const int64_t in = 19;
    const Tensor dy = random_tensor({rows, out}, 1), x = random_tensor({rows, in}, 2);
    const std::vector<double> g = doubles(dy), v = doubles(x);
    std::vector<double> expected(static_cast<size_t>(out * in));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < out; ++j) {
        for (int64_t i = 0; i < in; ++i) expected[j * in + i] += g[r * out + j] * v[r * in + i];
      }
    }
    KernelSetup setup{find_kernel("linear_weight_grad"), {dy, x}, {f32_type({out, in})}, {}};
    const std::vector<Tensor> first = run_kernel(setup);
    expect_near(first[0], expected, 1e-4, "dweight");
    for (int threads : {2, 4}) {
      setup.threads = threads;
      EXPECT_TRUE(same_bits(run_kernel(setup), first))
          << rows << " rows, " << threads << " threads";
    }
  }
}

TEST(Dot, EqualsLoopsForFewAndManyProducts) {
  for (int64_t batch : {1, 3, 40}) {
    const int64_t m = 7, n = 33, k = 18;
    const Tensor x = random_tensor({batch, m, k}, 1), y = random_tensor({batch, k, n}, 2);
    const std::vector<double> a = doubles(x), b = doubles(y);
    std::vector<double> expected(static_cast<size_t>(batch * m * n));
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          for (int64_t j = 0; j < k; ++j)
            expected[(i * m + r) * n + c] += a[(i * m + r) * k + j] * b[(i * k + j) * n + c];
        }
      }
    }
    KernelSetup setup{find_kernel("dot"), {x, y}, {f32_type({batch, m, n})}, {}};
    const std::vector<Tensor> first = run_kernel(setup);
    expect_near(first[0], expected, 1e-5, "dot");
    setup.threads = 4;
    EXPECT_TRUE(same_bits(run_kernel(setup), first));
  }
}

} // namespace
} // namespace dllm::cpu

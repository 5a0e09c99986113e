// The vector functions against double precision, and the same bits on every instruction set.

#include "cpu/simd/functions.h"
#include "unit/cpu/kernels/simd_targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace dllm::cpu {
namespace {

struct Function {
  const char* name;
  double (*exact)(double);
  double ulps;
};

const Function kFunctions[] = {
    {"exp", std::exp, 1.0},
    {"expm1", std::expm1, 1.6},
    {"log", std::log, 1.0},
    {"log1p", std::log1p, 1.6},
    {"tanh", std::tanh, 3.0},
    {"logistic", [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, 3.0},
    {"erf", std::erf, 1.5},
    {"sin", std::sin, 2.0},
    {"cos", std::cos, 2.0},
    {"sqrt", std::sqrt, 0.5},
    {"rsqrt", [](double x) { return 1.0 / std::sqrt(x); }, 1.5},
};

// Floats of every size and sign, NaN and infinities among them, and a fine grid around zero.
std::vector<float> samples() {
  std::vector<float> x{0.0f, -0.0f, 1.0f,   -1.0f,   HUGE_VALF, -HUGE_VALF,
                       NAN,  88.7f, 88.73f, -87.33f, -87.34f};
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 20011) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (float v = -20.0f; v < 20.0f; v += 0.0007f) x.push_back(v);
  return x;
}

std::vector<float> evaluate(const char* name, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  find_function(name)(x.data(), y.data(), static_cast<int64_t>(x.size()));
  return y;
}

double error_in_ulps(float got, double exact) {
  int exponent;
  std::frexp(static_cast<float>(exact), &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0, exponent - 24);
}

TEST(Math, IsAsExactAsPromised) {
  const std::vector<float> x = samples();
  for (const Function& function : kFunctions) {
    const std::vector<float> y = evaluate(function.name, x);
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = function.exact(x[i]);
      const float rounded = static_cast<float>(exact);
      ASSERT_EQ(std::isnan(y[i]), std::isnan(rounded)) << function.name << " of " << x[i];
      if (std::isnan(rounded)) continue;
      if (std::isinf(rounded) || std::isinf(y[i])) {
        ASSERT_EQ(y[i], rounded) << function.name << " of " << x[i];
      } else if (std::fabs(exact) < 1.1754944e-38) {
        ASSERT_LE(std::fabs(y[i]), 1.18e-38f) << function.name << " of " << x[i];
      } else if (const double error = error_in_ulps(y[i], exact); error > worst) {
        worst = error;
        where = x[i];
      }
    }
    EXPECT_LE(worst, function.ulps) << function.name << " at " << where;
  }
}

TEST(Math, ErfInvUndoesErf) {
  for (float x = -0.9999f; x < 1.0f; x += 0.0003f) {
    float y;
    find_function("erf_inv")(&x, &y, 1);
    // The derivative of erf at y carries the error over.
    const double slope = 2.0 / std::sqrt(M_PI) * std::exp(-double{y} * y);
    EXPECT_NEAR(std::erf(double{y}), x, 4e-7 * std::fabs(y) * slope + 1e-9) << x;
  }
  const float ends[] = {1.0f, -1.0f, 1.5f};
  float y[3];
  find_function("erf_inv")(ends, y, 3);
  EXPECT_EQ(y[0], HUGE_VALF);
  EXPECT_EQ(y[1], -HUGE_VALF);
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST(Math, IsTheSameOnEveryInstructionSet) {
  std::vector<float> x = samples();
  x.resize(x.size() / 2 * 2 + 1); // a tail of one for every width
  std::vector<const Function*> functions;
  for (const Function& function : kFunctions) {
    const std::vector<float> first = evaluate(function.name, x);
    for_each_simd_target([&](const char* target) {
      const std::vector<float> y = evaluate(function.name, x);
      int64_t different = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const bool both_nan = std::isnan(y[i]) && std::isnan(first[i]);
        if (!both_nan && std::memcmp(&y[i], &first[i], sizeof(float)) != 0) ++different;
      }
      EXPECT_EQ(different, 0) << function.name << " on " << target;
    });
  }
}

// The scalar target is the fallback with every compiler: another one has other bits.
TEST(Math, IsCompiledForThePromisedTargets) {
  const std::vector<std::string> targets = compiled_targets();
#if defined(__x86_64__)
  EXPECT_EQ(targets, (std::vector<std::string>{"AVX3", "AVX2", "SCALAR"}));
#else
  EXPECT_EQ(std::count(targets.begin(), targets.end(), "EMU128"), 0);
  EXPECT_FALSE(targets.empty());
#endif
}

TEST(Math, SumsInOneOrderEverywhere) {
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 1000.0f;
  for (int64_t count : {0, 1, 15, 16, 17, 31, 33, 999}) {
    float lanes[16] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i % 16] += x[static_cast<size_t>(i)];
    float tree[8];
    for (int i = 0; i < 8; ++i) tree[i] = lanes[i] + lanes[i + 8];
    for (int i = 0; i < 4; ++i) tree[i] += tree[i + 4];
    const float expected = (tree[0] + tree[2]) + (tree[1] + tree[3]);
    for_each_simd_target([&](const char* target) {
      EXPECT_EQ(sum16(x.data(), count), expected) << count << " numbers on " << target;
    });
  }
}

TEST(Math, PowerFollowsC) {
  for (float x :
       {0.0f, -0.0f, 0.3f, 1.0f, -1.0f, 2.0f, -2.0f, 1e30f, 1e-40f, HUGE_VALF, -HUGE_VALF, NAN}) {
    for (float y :
         {0.0f, 1.0f, -1.0f, 2.0f, 3.0f, -3.0f, 0.5f, -0.5f, 77.5f, HUGE_VALF, -HUGE_VALF, NAN}) {
      const float expected = static_cast<float>(std::pow(double{x}, double{y}));
      const float got = power(x, y);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << x << " to the " << y;
      } else {
        EXPECT_FLOAT_EQ(got, expected) << x << " to the " << y;
        EXPECT_EQ(std::signbit(got), std::signbit(expected)) << x << " to the " << y;
      }
    }
  }
}

} // namespace
} // namespace dllm::cpu

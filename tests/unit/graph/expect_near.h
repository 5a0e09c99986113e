#pragma once
// How near a result has to be to the oracle's: integers are equal, floats within 3e-5 relative to
// 1 + |y|, bf16 results, which are rounded to 8 bits, within 4e-3.

#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

namespace dllm::graph::test {

// expected: f64 where floats are compared.
inline void expect_near(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  if (expected.dtype() != DType::f64) {
    ASSERT_EQ(got.dtype(), expected.dtype()) << what;
    EXPECT_EQ(0, std::memcmp(got.bytes(), expected.bytes(), static_cast<size_t>(got.byte_size())))
        << what;
    return;
  }
  const double tolerance = got.dtype() == DType::bf16 ? 4e-3 : 3e-5;
  const Tensor wide = got.to(DType::f64);
  const auto x = wide.as<double>(), y = expected.as<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    ASSERT_NEAR(x[i], y[i], tolerance * (1 + std::fabs(y[i]))) << what << " element " << i;
  }
}

} // namespace dllm::graph::test

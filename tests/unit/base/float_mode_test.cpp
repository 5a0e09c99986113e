#include "base/threads/float_mode.h"

#include <gtest/gtest.h>

namespace dllm {
namespace {

TEST(FloatMode, RoundsToNearestAndComesBackToTheCallers) {
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    {
      const FloatMode own;
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
      volatile float small = 1e-38f, half = 1e-3f;
      EXPECT_GT(small * half, 0.0f); // a denormal
      {
        const FloatMode nested;
        EXPECT_EQ(std::fegetround(), FE_TONEAREST);
      }
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    }
    EXPECT_EQ(std::fegetround(), mode);
  }
  std::fesetenv(FE_DFL_ENV);
}

TEST(FloatMode, KeepsTheCallersFlags) {
  std::feclearexcept(FE_ALL_EXCEPT);
  {
    const FloatMode own;
    volatile double zero = 0;
    EXPECT_GT(1 / zero, 1);
  }
  EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO), 0);
}

} // namespace
} // namespace dllm

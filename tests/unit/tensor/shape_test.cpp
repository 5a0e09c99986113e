#include "tensor/tensor.h"

#include "unit/test_files.h"

namespace dllm {
namespace {

using test::expect_error;

TEST(Shape, AxesCountAndText) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.count(), 24);
  EXPECT_EQ(shape.dim(-1), 4);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape.text(), "(2, 3, 4)");
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ((Shape{0, 5}).count(), 0);
  EXPECT_EQ(shape.with_dim(-1, 9), (Shape{2, 3, 9}));
  EXPECT_EQ(shape.without(1), (Shape{2, 4}));
  EXPECT_EQ(shape.with_front(7), (Shape{7, 2, 3, 4}));
  expect_error(Code::invalid_argument, "shape (2, 3, 4) has no axis 3", [&] { shape.dim(3); });
  expect_error(Code::invalid_argument, "has no axis -4", [&] { shape.dim(-4); });
  expect_error(Code::invalid_argument, "has no axis 0", [] { Shape{}.dim(0); });
}

TEST(CheckedShape, RefusesOverflowNegativeAndManyAxes) {
  EXPECT_EQ(checked_shape({2, 3}, 4, "x").count(), 6);
  EXPECT_EQ(checked_shape({int64_t{1} << 60}, 4, "x").rank(), 1);
  expect_error(Code::invalid_argument, "x of shape (4294967296, 4294967296) overflows", [] {
    checked_shape({int64_t{1} << 32, int64_t{1} << 32}, 1, "x");
  });
  expect_error(Code::invalid_argument, "overflows",
               [] { checked_shape({int64_t{1} << 61}, 4, "x"); });
  expect_error(Code::invalid_argument, "negative extent -1", [] {
    checked_shape({3, -1}, 4, "x");
  });
  expect_error(Code::invalid_argument, "negative extent -1", [] {
    checked_shape({0, -1}, 4, "x");
  });
  expect_error(Code::invalid_argument, "17 axes",
               [] { checked_shape(std::vector<int64_t>(17, 1), 4, "x"); });
}

TEST(CheckedShape, RefusesExtentsThatOverflowNextToAZero) {
  const int64_t large = int64_t{1} << 40;
  expect_error(Code::invalid_argument, "overflows", [&] {
    checked_shape({large, large, 0}, 4, "x");
  });
  expect_error(Code::invalid_argument, "overflows", [&] {
    checked_shape({0, large, large}, 4, "x");
  });
}

} // namespace
} // namespace dllm

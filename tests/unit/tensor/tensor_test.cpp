#include "tensor/tensor.h"

#include "unit/test_files.h"

namespace dllm {
namespace {

using test::expect_error;

TEST(Tensor, StartsAsAlignedZeros) {
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 4}}) {
    const Tensor zeros(DType::f32, shape);
    EXPECT_TRUE(zeros.defined());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(zeros.bytes()) % 64, 0u);
    for (const float value : zeros.as<float>()) EXPECT_EQ(value, 0.0f);
  }
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, RefusesMoreThanAnAddressSpace) {
  for (const int64_t count : {int64_t{1} << 48, INT64_MAX}) {
    try {
      Tensor(DType::u8, {count});
      FAIL() << count;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::resource_exhausted);
      EXPECT_NE(std::string(error.what()).find(std::to_string(count)), std::string::npos)
          << error.what();
    }
  }
}

TEST(Tensor, ViewsShareAndClonesDoNot) {
  Tensor base = Tensor::from(Shape{3, 2}, std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  Tensor row = base.row(1);
  EXPECT_EQ(row.shape(), Shape{2});
  EXPECT_EQ(row.as<int32_t>()[0], 3);
  const Tensor copy = base.clone();
  row.mutable_as<int32_t>()[0] = 30;
  EXPECT_EQ(base.as<int32_t>()[2], 30);
  EXPECT_EQ(copy.as<int32_t>()[2], 3);
  const Tensor tail = base.rows(1, 3).reshaped({4});
  base = Tensor();
  EXPECT_EQ(tail.as<int32_t>()[3], 6);
  expect_error(Code::out_of_range, "rows 2 to 4 are not in (3, 2)", [&] { copy.rows(2, 4); });
  expect_error(Code::invalid_argument, "cannot reshape (3, 2) to (5)", [&] { copy.reshaped({5}); });
}

TEST(Tensor, ReadOnlyBytesStayReadOnly) {
  static const float values[] = {1, 2};
  Tensor view(DType::f32, {2}, Bytes(values, sizeof values, nullptr));
  EXPECT_FALSE(view.writable());
  EXPECT_EQ(view.as<float>()[1], 2.0f);
  expect_error(Code::failed_precondition, "read-only", [&] { view.mutable_bytes(); });
  expect_error(Code::invalid_argument, "8 bytes do not fill f32 (3)",
               [&] { Tensor(DType::f32, {3}, Bytes(values, sizeof values, nullptr)); });
  expect_error(Code::invalid_argument, "the array holds f32, not i32", [&] { view.as<int32_t>(); });
  EXPECT_TRUE(view.clone().writable());
}

TEST(Tensor, Converts) {
  const Tensor floats = Tensor::from(Shape{2}, std::vector<float>{1.5f, -2.0f});
  EXPECT_EQ(floats.to(DType::f32).bytes(), floats.bytes());
  EXPECT_EQ(floats.to(DType::bf16).to(DType::f64).as<double>()[0], 1.5);
  EXPECT_EQ(Tensor::scalar<int64_t>(7).shape().rank(), 0);
  expect_error(Code::invalid_argument, "3 values do not fill the shape (2)", [] {
    Tensor::from(Shape{2}, std::vector<float>{1, 2, 3});
  });
}

} // namespace
} // namespace dllm

#include "tensor/batch.h"

#include "unit/test_files.h"

namespace dllm {
namespace {

using test::expect_error;

TEST(Batch, KeepsOrderReplacesAndNamesTheNearest) {
  Batch batch;
  batch.set("ids", Tensor::scalar<int32_t>(1));
  batch.set("targets", Tensor::scalar<int32_t>(2));
  batch.set("ids", Tensor::scalar<int32_t>(3));
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch.name(0), "ids");
  EXPECT_EQ(batch.at("ids").as<int32_t>()[0], 3);
  EXPECT_EQ(batch.find("weights"), nullptr);
  const Error e = test::error_of([&] { batch.at("target"); });
  EXPECT_EQ(e.code(), Code::not_found);
  EXPECT_EQ(e.hint(), "did you mean targets?");
  batch.remove("ids");
  EXPECT_FALSE(batch.has("ids"));
}

TEST(Batch, GlobalRows) {
  Batch batch;
  EXPECT_EQ(batch.global_rows(4), (std::pair<int64_t, int64_t>{0, 4}));
  batch.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{8, 16}));
  EXPECT_EQ(batch.global_rows(4), (std::pair<int64_t, int64_t>{8, 16}));
  expect_error(Code::invalid_argument, "first + 9 <= total", [&] { batch.global_rows(9); });
  batch.set("rows", Tensor::scalar<int64_t>(1));
  expect_error(Code::invalid_argument, "rows", [&] { batch.global_rows(1); });
  batch.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{INT64_MAX, INT64_MAX}));
  expect_error(Code::invalid_argument, "rows", [&] { batch.global_rows(1); });
}

} // namespace
} // namespace dllm

#include "tensor/copy_pool.h"

#include "unit/cancel.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <numeric>
#include <optional>

namespace dllm {
namespace {

Tensor counted(int64_t count, float first) {
  Tensor made(DType::f32, {count});
  std::iota(made.mutable_as<float>().begin(), made.mutable_as<float>().end(), first);
  return made;
}

TEST(CopyPool, CopiesHaveTheNumbersOfTheirMoment) {
  CopyPool pool;
  Tensor from = counted(1000, 1);
  const Tensor copy = pool.copy(from, nullptr);
  from.mutable_as<float>()[7] = -1;
  EXPECT_EQ(copy.shape(), from.shape());
  EXPECT_EQ(copy.as<float>()[7], 8);
  EXPECT_EQ(copy.as<float>()[999], 1000);
}

TEST(CopyPool, ALaterCopyOfAsManyBytesTakesTheBlockAgain) {
  CopyPool pool;
  std::optional<Tensor> first = pool.copy(counted(1000, 1), nullptr);
  const std::byte* block = first->bytes();
  const Tensor second = pool.copy(counted(1000, 5), nullptr);
  EXPECT_NE(second.bytes(), block) << "the first is in use";
  const Tensor rows = first->rows(10, 20);
  first.reset();
  EXPECT_EQ(pool.free_bytes(), 0) << "a part of it is in use";
  EXPECT_EQ(rows.as<float>()[0], 11);
}

TEST(CopyPool, FreeBlocksServeCopiesOfTheirSizeAlone) {
  CopyPool pool;
  const std::byte* block = pool.copy(counted(1000, 1), nullptr).bytes();
  EXPECT_EQ(pool.free_bytes(), 4000);
  const Tensor other = pool.copy(counted(999, 1), nullptr);
  EXPECT_EQ(pool.free_bytes(), 4000);
  const Tensor same = pool.copy(counted(1000, 3), nullptr);
  EXPECT_EQ(same.bytes(), block);
  EXPECT_EQ(same.as<float>()[0], 3);
  EXPECT_EQ(pool.free_bytes(), 0);
}

// Sizes around the borders of pieces of 1 MiB.
TEST(CopyPool, ThreadsCopyEveryPiece) {
  ThreadPool threads(3);
  CopyPool pool;
  constexpr int64_t kPiece = (int64_t{1} << 20) / 4; // numbers
  for (const int64_t count : {int64_t{0}, int64_t{1}, kPiece - 1, kPiece, 5 * kPiece + 3}) {
    const Tensor from = counted(count, 1);
    for (CopyPool* of : {&pool, static_cast<CopyPool*>(nullptr)}) {
      const Tensor copy = copy_of(from, {&threads}, of);
      EXPECT_TRUE(std::ranges::equal(copy.as<float>(), from.as<float>())) << count;
      EXPECT_TRUE(count == 0 || copy.bytes() != from.bytes());
    }
  }
}

TEST(CopyPool, ACancelledCopyGivesItsBlockBack) {
  ThreadPool threads(2);
  CopyPool pool;
  const Tensor from = counted(1 << 20, 1); // 4 pieces
  const auto copy = [&](const Task* task) { pool.copy(from, {&threads, task}); };
  EXPECT_EQ(test::count_checks(copy), 4);
  for (const int64_t at : {1, 3, 4}) {
    test::cancel_at(at, copy);
    EXPECT_EQ(pool.free_bytes(), from.byte_size());
  }
}

TEST(CopyPool, ACopyOutlivesThePool) {
  std::optional<CopyPool> pool(std::in_place);
  const Tensor copy = pool->copy(counted(1000, 1), nullptr);
  pool.reset();
  EXPECT_EQ(copy.as<float>()[999], 1000);
}

} // namespace
} // namespace dllm

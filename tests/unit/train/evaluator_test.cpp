// Held-out losses: the rows that their error is computed from.
#include "train/evaluator.h"

#include "tiny.h"

#include <gtest/gtest.h>

namespace dllm::train {
namespace {

// Batches whose first row is always the same one; the others are `fresh` new rows and copies of the
// first row.
class RepeatingSource final : public BatchSource {
public:
  explicit RepeatingSource(int64_t fresh) : fresh_(fresh) {}
  std::optional<Batch> next() override {
    Tensor ids(DType::i32, {kRows, kLength});
    for (int64_t row = 0; row < kRows; ++row) {
      const bool is_fresh = row > 0 && row <= fresh_;
      const int64_t start = is_fresh ? 1 + position_ * kRows + row : 0;
      for (int64_t i = 0; i < kLength; ++i) {
        ids.mutable_as<int32_t>()[static_cast<size_t>(row * kLength + i)] =
            static_cast<int32_t>((start * 3 + i * (1 + start % 4)) % 20 + 3);
      }
    }
    ++position_;
    Batch made;
    made.set("ids", ids);
    return made;
  }
  int64_t position() const override { return position_; }
  void seek(int64_t position) override { position_ = position; }

private:
  static constexpr int64_t kRows = 4, kLength = 8;
  int64_t fresh_, position_ = 0;
};

std::optional<double> error_with(int64_t fresh) {
  RepeatingSource source(fresh);
  const auto model = tiny_model();
  Evaluator evaluator(model, noise::make_objective("mdlm"));
  return evaluator.run(source, 8, 4, {}, nullptr).standard_error;
}

// A batch with a row that came before has new rows too, and these count.
TEST(Evaluator, NewRowsOfEveryBatchGiveTheError) {
  EXPECT_FALSE(error_with(0)) << "one row says nothing about others";
  const std::optional<double> few = error_with(1), many = error_with(3);
  ASSERT_TRUE(few);
  ASSERT_TRUE(many);
  EXPECT_GT(*few, 0);
  EXPECT_GT(*many, 0);
}

} // namespace
} // namespace dllm::train

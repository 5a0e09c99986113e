#include "model/params/number_range.h"

#include "base/error.h"
#include "tensor/batch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

namespace dllm::model {
namespace {

// Returns the largest number that a format holds. mxfp4 has scales that are powers of two, int8 has
// a scale in f32.
float limit_of(const WeightFormat& format) {
  constexpr float kF16 = 65504, kBf16 = std::bit_cast<float>(0x7F7F0000u);
  if (format.element == DType::bf16) return kBf16;
  const bool has_f16_scales = format.is_blocks() && std::string_view(format.name) != "mxfp4";
  if (format.element == DType::f16 || has_f16_scales) return kF16;
  return std::numeric_limits<float>::infinity();
}

} // namespace

void check_number_range(const std::string& name, const Tensor& numbers, const WeightFormat& format,
                        const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const float limit = limit_of(format);
  if (std::isinf(limit) || numbers.dtype() == format.element) return;
  const Tensor flat = numbers.reshaped(Shape{numbers.count()});
  for (int64_t begin = 0; begin < numbers.count(); begin += kPiece) {
    check_task(task);
    const Tensor piece = flat.rows(begin, std::min(begin + kPiece, numbers.count())).to(DType::f32);
    const auto values = piece.as<float>();
    const auto found = std::ranges::find_if(
        values, [&](float x) { return std::isfinite(x) && std::abs(x) > limit; });
    if (found == values.end()) continue;
    fail_with_hint("take bf16 or f32", Code::out_of_range,
                   "tensor {} holds {} at {}, {} holds numbers up to {}", name, *found,
                   place_text(numbers.shape(), begin + (found - values.begin())), format.name,
                   limit);
  }
}

} // namespace dllm::model

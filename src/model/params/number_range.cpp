#include "model/params/number_range.h"

#include "base/error.h"
#include "tensor/batch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dllm::model {
void check_number_range(const std::string& name, const Tensor& numbers, const WeightFormat& format,
                        const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const float limit = format.largest;
  if (limit == std::numeric_limits<float>::max() || numbers.dtype() == format.element) return;
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

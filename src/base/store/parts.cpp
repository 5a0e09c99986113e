#include "base/store/client.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::store {

PartPlan plan_parts(int64_t size) {
  constexpr int64_t kMiB = int64_t{1} << 20, kUsual = 16 * kMiB, kMostParts = 10'000;
  constexpr int64_t kLargest = int64_t{5} << 40;
  if (size > kLargest) {
    fail(Code::out_of_range, "an object has at most {} bytes, this one has {}", kLargest, size);
  }
  PartPlan plan;
  const int64_t least = (size + kMostParts - 1) / kMostParts;
  plan.part = std::max(kUsual, (least + kMiB - 1) / kMiB * kMiB);
  plan.count = std::max<int64_t>(1, (size + plan.part - 1) / plan.part);
  return plan;
}

} // namespace dllm::store

#pragma once
// Large objects in parts: how an upload is cut, and several transfers at once.

#include "base/task.h"

#include <cstdint>
#include <functional>

namespace dllm::store {

struct PartPlan {
  int64_t part = 0;  // bytes of all but the last
  int64_t count = 0; // 1: one request, no multipart upload
  int64_t begin(int64_t index) const { return index * part; }
};

// S3's limits: 5 MiB to 5 GiB a part, 10,000 parts, 5 TiB an object; out_of_range above. Parts are 16 MiB, and whole MiB where
// an object needs larger ones.
PartPlan plan_parts(int64_t size);

inline constexpr int64_t kTransfersAtOnce = 4;

// Calls work(index, task) for every index from 0 to count - 1, on up to kTransfersAtOnce threads. The first failure cancels
// the task of the others and is thrown when all have ended.
void run_transfers(int64_t count, const Task* task,
                   const std::function<void(int64_t index, const Task* task)>& work);

} // namespace dllm::store

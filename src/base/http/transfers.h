#pragma once
// Runs several transfers at once.

#include "base/task.h"

#include <cstdint>
#include <functional>

namespace dllm::http {

inline constexpr int64_t kTransfersAtOnce = 4;

// Calls work(index, task) for every index from 0 to count - 1, on up to kTransfersAtOnce threads.
// The first failure cancels the task of the other calls and is thrown when all calls have ended.
void run_transfers(int64_t count, const Task* task,
                   const std::function<void(int64_t index, const Task* task)>& work);

} // namespace dllm::http

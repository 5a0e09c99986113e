#include "base/http/transfers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace dllm::http {

void run_transfers(int64_t count, const Task* task,
                   const std::function<void(int64_t index, const Task* task)>& work) {
  if (count == 1) return work(0, task);
  Task own; // the caller's task or the first failure cancels it
  own.set_outer(task);
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&] {
    for (int64_t index = next++; index < count; index = next++) {
      try {
        work(index, &own);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
        own.cancel();
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min(count, kTransfersAtOnce); ++i) {
    try {
      threads.emplace_back(run);
    } catch (const std::system_error&) { // the threads that started do the work
      break;
    }
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (first == nullptr) return;
  check_task(task); // a cancel by the caller comes before the first failure
  std::rethrow_exception(first);
}

} // namespace dllm::http

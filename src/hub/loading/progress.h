#pragma once
// Counts the bytes of a pull in a task. Any thread may add.

#include "base/task.h"

#include <atomic>
#include <cstdint>

namespace dllm::hub {

class Progress {
public:
  Progress(Task* task, int64_t total) : task_(task), total_(total) { add(0); }

  // `bytes` is negative when bytes are loaded again.
  void add(int64_t bytes) {
    const int64_t done = done_.fetch_add(bytes) + bytes;
    if (task_ != nullptr) task_->set_progress(done, total_);
  }

  int64_t done() const { return done_.load(); }

private:
  Task* task_; // may be null
  std::atomic<int64_t> done_{0};
  const int64_t total_;
};

} // namespace dllm::hub

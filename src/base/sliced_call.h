#pragma once
// A call that is left between two operations and continued later. It runs on a thread of its own, whose stack keeps all
// that the call holds, while the caller waits: at any moment one of the two runs.

#include "base/meter.h"
#include "base/task.h"

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

namespace dllm {

// One call at a time. Start, resume and drop come from one thread at a time.
class SlicedCall final : private PausePoint {
public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<void(const Task*)>;

  SlicedCall() = default;
  ~SlicedCall() override; // drops a call in progress
  SlicedCall(const SlicedCall&) = delete;
  SlicedCall& operator=(const SlicedCall&) = delete;

  // Runs work(task) until it ends, or until the first pause point at `until` or later. True: it ended. Throws what it
  // threw. `outer` cancels it too and is used until this returns; may be null.
  bool start(Work work, Clock::time_point until, const Task* outer);
  // Goes on with a paused call, by at least the operation behind the pause point.
  bool resume(Clock::time_point until, const Task* outer);
  // Cancels a paused call and waits for its end; its exception is lost. Without one: nothing.
  void drop() noexcept;
  // False in a forked child: the thread of the parent does not exist there, its call is given up.
  bool is_paused();

private:
  enum Turn : int { kCaller, kThread, kOver };
  bool is_due() const noexcept override { return Clock::now() >= until_; }
  void pause() override;
  bool hand_over(Clock::time_point until, const Task* outer);
  void serve();
  void give_up_after_fork();

  std::atomic<int> turn_{kCaller}; // passes all members below between the two threads
  Work work_;
  std::optional<Task> task_;
  Clock::time_point until_;
  MeterRef meter_;                    // of the caller of this slice
  std::optional<MeterScope> metered_; // the same, on the thread
  std::exception_ptr thrown_;
  bool in_progress_ = false;
  std::thread thread_;
  pid_t owner_ = 0;
};

} // namespace dllm

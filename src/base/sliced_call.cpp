#include "base/sliced_call.h"

#include <unistd.h>

#include <utility>

namespace dllm {

SlicedCall::~SlicedCall() {
  drop();
  give_up_after_fork();
  if (!thread_.joinable()) return;
  turn_.store(kOver, std::memory_order_release);
  turn_.notify_all();
  thread_.join();
}

void SlicedCall::give_up_after_fork() {
  if (owner_ == getpid() || !thread_.joinable()) return;
  thread_.detach();
  in_progress_ = false;
  turn_.store(kCaller, std::memory_order_relaxed);
}

bool SlicedCall::is_paused() {
  give_up_after_fork();
  return in_progress_;
}

bool SlicedCall::start(Work work, Clock::time_point until, const Task* outer) {
  give_up_after_fork();
  work_ = std::move(work);
  task_.emplace();
  task_->set_pause_point(this);
  thrown_ = nullptr;
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { serve(); });
    owner_ = getpid();
  }
  in_progress_ = true;
  return hand_over(until, outer);
}

bool SlicedCall::resume(Clock::time_point until, const Task* outer) {
  return hand_over(until, outer);
}

void SlicedCall::drop() noexcept {
  if (!is_paused()) return;
  task_->cancel();
  try {
    while (!hand_over(Clock::time_point::max(), nullptr)) {
    }
  } catch (...) { // the cancel
  }
}

// The caller's side: the other thread's turn, until it is the caller's again.
bool SlicedCall::hand_over(Clock::time_point until, const Task* outer) {
  until_ = until;
  task_->set_outer(outer);
  meter_ = current_meter();
  turn_.store(kThread, std::memory_order_release);
  turn_.notify_all();
  while (turn_.load(std::memory_order_acquire) != kCaller)
    turn_.wait(kThread, std::memory_order_acquire);
  task_->set_outer(nullptr);
  meter_.reset();
  if (in_progress_) return false;
  work_ = nullptr;
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return true;
}

// The thread's side of a pause.
void SlicedCall::pause() {
  metered_.reset();
  turn_.store(kCaller, std::memory_order_release);
  turn_.notify_all();
  while (turn_.load(std::memory_order_acquire) != kThread)
    turn_.wait(kCaller, std::memory_order_acquire);
  metered_.emplace(meter_);
}

void SlicedCall::serve() {
  for (;;) {
    int turn = kCaller;
    while ((turn = turn_.load(std::memory_order_acquire)) == kCaller)
      turn_.wait(kCaller, std::memory_order_acquire);
    if (turn == kOver) return;
    metered_.emplace(meter_);
    try {
      work_(&*task_);
    } catch (...) {
      thrown_ = std::current_exception();
    }
    metered_.reset();
    in_progress_ = false;
    turn_.store(kCaller, std::memory_order_release);
    turn_.notify_all();
  }
}

} // namespace dllm

#ifndef DLLM_CPP_TURNS_HPP
#define DLLM_CPP_TURNS_HPP
// Calls of several threads on one object, one after another.
#include "dllm/cpp/handle.hpp"

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace dllm {
inline namespace api {

// Gives the turn to one thread at a time, in the order in which the threads asked. A call inside of
// a turn of its thread, as in a callback, is a part of that turn.
class Turns {
public:
  // Ends the turn when it is destroyed.
  class Turn {
  public:
    Turn() = default;
    explicit Turn(Turns* turns) noexcept : turns_(turns) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (turns_ != nullptr) turns_->leave();
    }

  private:
    Turns* turns_ = nullptr;
  };

  // Waits for the turn. The task ends the wait as it would end the call.
  [[nodiscard]] Turn take(const Task* task) {
    const dllm_task* watched = handle_of(task);
    std::unique_lock<std::mutex> gate(gate_);
    if (depth_ == 0 || owner_ != std::this_thread::get_id()) {
      if (depth_ > 0 || !waiting_.empty()) wait(gate, watched == nullptr ? nullptr : task);
      owner_ = std::this_thread::get_id();
    }
    ++depth_;
    return Turn(this);
  }

private:
  // Between two looks at the task of a call that waits, as the library has.
  static constexpr std::chrono::milliseconds kPause{10};

  // The place of a thread that waits. Its end wakes the others.
  struct Place {
    explicit Place(Turns& turns)
        : turns_(turns), at_(turns.waiting_.insert(turns.waiting_.end(), 0)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      turns_.waiting_.erase(at_);
      turns_.moved_.notify_all();
    }
    bool is_next() const noexcept { return turns_.depth_ == 0 && turns_.waiting_.begin() == at_; }

  private:
    Turns& turns_;
    std::list<char>::const_iterator at_;
  };

  void wait(std::unique_lock<std::mutex>& gate, const Task* task) {
    const Place place(*this);
    const auto is_next = [&] { return place.is_next(); };
    if (task == nullptr) return moved_.wait(gate, is_next);
    while (!moved_.wait_for(gate, kPause, is_next)) fail_if_over(*task);
  }

  // Throws what a call with this task throws when it was cancelled or its deadline has passed.
  static void fail_if_over(const Task& task) {
    if (!task.is_cancelled()) return;
    // Without its deadline a task is cancelled only by a cancel. The deadline is back at once.
    task.set_deadline(-1);
    const bool was_cancelled = task.is_cancelled();
    task.set_deadline(0);
    if (was_cancelled) raise(Error(DLLM_CANCELLED, "the task was cancelled"));
    raise(Error(DLLM_DEADLINE_EXCEEDED, "the task's deadline has passed"));
  }

  void leave() {
    const std::lock_guard<std::mutex> gate(gate_);
    if (--depth_ == 0) moved_.notify_all();
  }

  std::mutex gate_;
  std::condition_variable moved_;
  std::list<char> waiting_; // an element for each thread that waits
  std::thread::id owner_;
  int depth_ = 0; // calls of the owner, each inside of the one before
};

} // namespace api
} // namespace dllm
#endif

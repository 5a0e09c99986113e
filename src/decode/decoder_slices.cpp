// Steps in slices of time: the budget of a frame may end inside of a forward pass.

#include "base/error.h"
#include "decode/decoder.h"

namespace dllm::decode {

std::optional<std::vector<Decoder::Change>> Decoder::advance_until(SlicedCall::Clock::time_point until,
                                                                   const Task* task) {
  bool ended = false;
  try {
    ended = sliced_.is_paused()
                ? sliced_.resume(until, task)
                : sliced_.start([this](const Task* inner) { sliced_changes_ = advance(1, inner); }, until, task);
  } catch (...) {
    suspended_.store(false, std::memory_order_relaxed);
    throw;
  }
  suspended_.store(!ended, std::memory_order_relaxed);
  if (!ended) return std::nullopt;
  return std::move(sliced_changes_);
}

void Decoder::drop_suspended() {
  sliced_.drop();
  suspended_.store(false, std::memory_order_relaxed);
}

int64_t Decoder::step_for(std::chrono::nanoseconds budget, const EventFn& fn, Task* task) {
  const auto begin = SlicedCall::Clock::now();
  const auto most = SlicedCall::Clock::time_point::max() - begin;
  const auto until = budget < most ? begin + budget : SlicedCall::Clock::time_point::max();
  active_requests(); // fails where there is none
  for (bool go_on = true; go_on && active_count() > 0;) {
    if (!is_suspended()) { // a suspended step checks the task itself, and is dropped by a cancel
      check_task(task);
      replay_.reset();
    }
    const auto changes = advance_until(until, task);
    if (!changes) break;
    go_on = show(fn, *changes) && SlicedCall::Clock::now() < until;
  }
  return active_count();
}

} // namespace dllm::decode

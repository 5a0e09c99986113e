#include "decode/decoder/suspended_step.h"

#include <utility>

namespace dllm::decode {

std::optional<std::vector<Change>> SuspendedStep::run(SlotList& slots, const Work& work,
                                                      Clock::time_point until, const Task* task) {
  bool ended = false;
  if (!call_.is_paused()) {
    slots_.clear();
    for (const Slot* slot : slots.active()) slots_.insert(slot->number());
  }
  try {
    ended =
        call_.is_paused()
            ? call_.resume(until, task)
            : call_.start([this, work](const Task* inner) { changes_ = work(inner); }, until, task);
  } catch (...) {
    suspended_.store(false, std::memory_order_relaxed);
    throw;
  }
  suspended_.store(!ended, std::memory_order_relaxed);
  if (!ended) return std::nullopt;
  return std::move(changes_);
}

void SuspendedStep::drop() {
  call_.drop();
  suspended_.store(false, std::memory_order_relaxed);
}

void SuspendedStep::drop_with(int64_t slot) {
  if (slots_.contains(slot)) drop();
}

} // namespace dllm::decode

#include "decode/published.h"

#include "base/error.h"

#include <utility>

namespace dllm::decode {

void Published::put(Slots changed, const DecoderTotals& totals, bool drop_others) {
  Slots before; // destroyed after the lock
  const std::lock_guard lock(mutex_);
  before = drop_others ? std::exchange(now_.slots, {}) : Slots();
  for (auto& [number, copy] : changed) now_.slots[number].swap(copy);
  now_.totals = totals;
}

void Published::remove(int64_t number, const DecoderTotals& totals) {
  SlotCopyRef before;
  const std::lock_guard lock(mutex_);
  if (const auto found = now_.slots.find(number); found != now_.slots.end()) {
    before = std::move(found->second);
    now_.slots.erase(found);
  }
  now_.totals = totals;
}

SlotCopyRef Published::slot(int64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = now_.slots.find(number);
  if (found == now_.slots.end()) fail(Code::not_found, "there is no slot {}", number);
  return found->second;
}

Published::All Published::all() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

} // namespace dllm::decode

#include "decode/slot/slot_list.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace dllm::decode {

Slot& SlotList::at(int64_t number) {
  const auto found = slots_.find(number);
  if (found == slots_.end()) fail(Code::not_found, "there is no slot {}", number);
  return found->second;
}

const Slot& SlotList::at(int64_t number) const {
  return const_cast<SlotList*>(this)->at(number);
}

void SlotList::need_one() const {
  if (slots_.empty()) {
    fail_with_hint("call start or add first", Code::failed_precondition,
                   "the decoder holds no request");
  }
}

std::vector<Slot*> SlotList::active() {
  std::vector<Slot*> active;
  for (auto& [number, slot] : slots_) {
    if (slot.is_active()) active.push_back(&slot);
  }
  return active;
}

int64_t SlotList::active_count() const {
  return std::count_if(slots_.begin(), slots_.end(),
                       [](const auto& one) { return one.second.is_active(); });
}

int64_t SlotList::free_number() const {
  int64_t number = 0;
  while (slots_.contains(number)) ++number;
  return number;
}

Slot& SlotList::add(Slot slot) {
  const int64_t number = slot.number();
  return slots_.emplace(number, std::move(slot)).first->second;
}

} // namespace dllm::decode

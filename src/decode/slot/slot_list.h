#pragma once
// A slot list holds the slots of a decoder by their numbers.

#include "decode/slot/slot.h"

#include <cstdint>
#include <map>
#include <vector>

namespace dllm::decode {

class SlotList {
public:
  using Slots = std::map<int64_t, Slot>;

  Slots& all() { return slots_; }
  const Slots& all() const { return slots_; }
  int64_t size() const { return std::ssize(slots_); }
  Slot& at(int64_t number); // fails with not_found
  const Slot& at(int64_t number) const;
  void need_one() const; // fails with failed_precondition if there are no slots

  std::vector<Slot*> active(); // slots whose request is active, in the order of their numbers
  int64_t active_count() const;

  int64_t free_number() const; // the smallest number that no slot has
  Slot& add(Slot slot);
  void remove(int64_t number) { slots_.erase(number); }

private:
  Slots slots_;
};

} // namespace dllm::decode

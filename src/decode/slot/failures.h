#pragma once
// An error of one request ends only that request. Failures decides which errors are of one request,
// which call throws them, and when the request is tried again.

#include "base/error.h"
#include "decode/slot/slot.h"
#include "decode/slot/slot_list.h"

#include <cstdint>
#include <functional>

namespace dllm::decode {

class Failures {
public:
  explicit Failures(SlotList& slots) : slots_(slots) {}

  // Returns whether an error belongs to one request. A cancel, a lack of memory and a broken engine
  // belong to all requests.
  static bool is_of_request(const Error& error);
  // Does the work of one request. If it fails with an error of the request, ends the request and
  // returns false.
  bool succeeds(Slot& slot, const std::function<void()>& work);
  void fail(Slot& slot, const Error& error);

  // Makes failed requests active again if no other request is active.
  void try_again();
  // Returns the number of active requests. If there are none, throws the error of the first request
  // that failed.
  int64_t report() const;

private:
  SlotList& slots_;
};

} // namespace dllm::decode

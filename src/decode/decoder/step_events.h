#pragma once
// This function sends the events of a step to the callback of a host.

#include "base/log.h"
#include "decode/slot/slot.h"
#include "decode/slot/slot_list.h"

#include <vector>

namespace dllm::decode {

// Sends the events of the changes of a step; an empty function receives none. Returns false if the
// callback stops. Fails with callback_failed if it fails.
bool send_events(const EventFn& fn, SlotList& slots, const std::vector<Change>& changes);

} // namespace dllm::decode

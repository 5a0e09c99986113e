#pragma once
// Something a plugin will have done later.

#include "pjrt/call.h"

#include <functional>

namespace dllm::pjrt {

using EventHandle = Handle<abi::Event, abi::EventDestroyArgs, &abi::EventDestroyArgs::event,
                           &abi::Api::event_destroy>;

// Blocks until it happened; fails with the error it ended with. An empty event has happened.
void await(const EventHandle& event);
bool is_ready(const EventHandle& event);
// Calls `done` once, on any thread or before this returns; it must be short and must not call the
// plugin. The event may be destroyed at once. Errors of the event are dropped.
void when_ready(const EventHandle& event, std::function<void()> done);

} // namespace dllm::pjrt

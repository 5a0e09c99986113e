#pragma once
#include "base/event.h"
#include "check.h"
#include "dllm/event.h"
#include "guard.h"

struct dllm_event : dllm::abi::Handle<dllm::abi::Kind::event> {
  explicit dllm_event(const dllm::Event& seen) : object(seen) {}
  const dllm::Event& object;
};

namespace dllm::abi {

// The C callback as a function of the core. Empty when fn is NULL.
inline EventFn event_fn(dllm_event_fn fn, void* user_data) {
  if (fn == nullptr) return {};
  return [fn, user_data](const Event& event) {
    const dllm_event handle(event);
    const int32_t answer = fn(&handle, user_data);
    if (answer == DLLM_CONTINUE) return Answer::go_on;
    return answer == DLLM_STOP ? Answer::stop : Answer::fail;
  };
}

}  // namespace dllm::abi

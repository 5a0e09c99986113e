#pragma once
// Threads of a process that forked, in its child.

#include <memory>
#include <thread>

namespace dllm {

// For a thread that a parent process had: it does not exist in a forked child, so it is neither joined nor detached.
// The C library uses its stack and its handle again for the next thread that the child starts, and
// pthread_detach() on the old handle would detach that one; joining that one would then wait for whatever runs there later.
// Afterwards `dead` is not joinable.
inline void forget_thread(std::thread& dead) noexcept {
  std::construct_at(
      &dead); // without its destructor, which ends the process for a thread that was not joined
}

} // namespace dllm

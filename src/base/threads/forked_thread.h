#pragma once
// Lets a forked child drop the std::thread objects of its parent.

#include <memory>
#include <thread>

namespace dllm {

// Makes `dead` not joinable without joining or detaching it. A parent's thread does not exist in a
// forked child. The C library reuses its stack and handle for the child's next thread. A join or
// detach through the old handle would affect the new thread. The destructor of std::thread is
// skipped, because it ends the process for a joinable thread.
inline void forget_thread(std::thread& dead) noexcept {
  std::construct_at(&dead);
}

} // namespace dllm

#pragma once
// Sets the floating-point mode of a thread, so that results do not depend on the host's mode. Audio
// and game hosts flush denormals to zero, and other libraries change the rounding.

#include <cfenv>

namespace dllm {

// While a FloatMode lives, its thread rounds to nearest, keeps denormals and raises no traps. The
// destructor restores the thread's mode. Threads started meanwhile inherit the mode. Cost: a few
// nanoseconds if the mode is already set.
class FloatMode {
public:
  FloatMode() noexcept;
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

private:
  std::fenv_t saved_; // on x86 only the two control words are used
};

} // namespace dllm

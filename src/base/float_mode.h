#pragma once
// How this thread rounds. Audio and game hosts let denormals be zero, a library may have set another rounding mode: numbers
// of the library do not depend on it.

#include <cfenv>

namespace dllm {

// While one lives, this thread rounds to nearest, keeps denormals and traps nothing; then it has its own mode again.
// Threads that are started meanwhile inherit it. A few nanoseconds where nothing has to be changed.
class FloatMode {
public:
  FloatMode() noexcept;
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

private:
  std::fenv_t saved_; // on x86 the two control words alone
};

} // namespace dllm

#pragma once
// Sanitizers make code five to fifty times slower, and need memory of their own.

#include <cstdint>

namespace dllm::test {

#if defined(DLLM_SANITIZES_ADDRESS) || defined(DLLM_SANITIZES_THREAD)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// Returns how many of a test's random cases run: all of them, and a fifth under a sanitizer. The
// release build compares all numbers; a sanitizer watches the code that made them.
template <class Count> constexpr Count some_cases(Count all) {
  return kIsSanitized ? all / 5 : all;
}

} // namespace dllm::test

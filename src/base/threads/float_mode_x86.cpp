// FloatMode on x86. It sets SSE, which computes, and the x87 unit, which only text conversions use
// (long double).

#include "base/threads/float_mode.h"

#include <xmmintrin.h>

namespace dllm {
namespace {

constexpr unsigned kSseFlags = 0x3F; // exception flags; the other bits are the mode
constexpr unsigned kSseMode = 0x1F80;
constexpr unsigned short kX87Mode = 0x037F;

unsigned short x87_mode() noexcept {
  unsigned short mode;
  asm volatile("fnstcw %0" : "=m"(mode));
  return mode;
}

void set_x87_mode(unsigned short mode) noexcept {
  asm volatile("fldcw %0" : : "m"(mode));
}

} // namespace

FloatMode::FloatMode() noexcept {
  saved_.__mxcsr = _mm_getcsr();
  saved_.__control_word = x87_mode();
  if ((saved_.__mxcsr & ~kSseFlags) != kSseMode) _mm_setcsr(kSseMode);
  if (saved_.__control_word != kX87Mode) set_x87_mode(kX87Mode);
}

FloatMode::~FloatMode() {
  if (_mm_getcsr() != saved_.__mxcsr) _mm_setcsr(saved_.__mxcsr);
  if (saved_.__control_word != kX87Mode) set_x87_mode(saved_.__control_word);
}

} // namespace dllm

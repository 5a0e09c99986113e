// arc4random for the archive of libevent in a program that is shipped (DLLM_SELF_CONTAINED).
//
// Debian's archive calls these two functions of glibc 2.36. The linker takes the ones below
// instead, so that the program also starts on systems with an older glibc. getrandom(2) is in glibc
// since 2.25.

#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" {

// <stdlib.h> of glibc 2.36 declares these functions, and older headers do not.
void arc4random_buf(void* out, size_t size) noexcept;
uint32_t arc4random() noexcept;

void arc4random_buf(void* out, size_t size) noexcept {
  auto* at = static_cast<unsigned char*>(out);
  while (size > 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got < 0 && errno != EINTR) std::abort(); // as glibc's own does
    if (got < 0) continue;
    at += got;
    size -= static_cast<size_t>(got);
  }
}

uint32_t arc4random() noexcept {
  uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

} // extern "C"

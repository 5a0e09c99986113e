#include "standard_output.h"

#include "command.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace dllm::cli {
namespace {

volatile std::sig_atomic_t reader_went_away = 0;

void on_broken_pipe(int) { reader_went_away = 1; }

void on_size_limit(int) {}

}  // namespace

// A closed pipe and a file above the size limit are errors of the failing write. Handlers, not SIG_IGN: programs
// that this one starts have the defaults again.
void watch_standard_output() {
  struct sigaction action = {};
  action.sa_handler = on_broken_pipe;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
  action.sa_handler = on_size_limit;
  sigaction(SIGXFSZ, &action, nullptr);
}

int finish_standard_output(int code) {
  errno = 0;
  const bool failed_before = std::ferror(stdout) != 0;
  const bool failed = std::fflush(stdout) != 0 || failed_before;
  if (!failed) return code;
  if (reader_went_away == 0) {
    std::fprintf(stderr, "dllm: cannot write standard output%s%s\n", errno != 0 ? ": " : "",
                 errno != 0 ? std::strerror(errno) : "");
  }
  return code == 0 ? kFailed : code;
}

}  // namespace dllm::cli

#include "interrupt.h"

#include <csignal>

namespace dllm::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

dllm_task* interrupted_task = nullptr;  // what a signal cancels
volatile std::sig_atomic_t last_signal = SIGINT;

void on_interrupt(int number) {
  last_signal = number;
  dllm_task_cancel(interrupted_task);
  for (const int each : kSignals) std::signal(each, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt(dllm_task* task) : before_(interrupted_task) {
  interrupted_task = task;
  for (int i = 0; i < kCount; ++i) {
    handlers_before_[i] = std::signal(kSignals[i], on_interrupt);
    // nohup: the end of the terminal is nothing to this process. (A shell's background job ignores SIGINT as well, but
    // one sent by hand is meant.)
    if (kSignals[i] == SIGHUP && handlers_before_[i] == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  }
}

Interrupt::~Interrupt() {
  for (int i = 0; i < kCount; ++i) std::signal(kSignals[i], handlers_before_[i]);
  interrupted_task = before_;
}

int interrupted_code() { return 128 + static_cast<int>(last_signal); }

}  // namespace dllm::cli

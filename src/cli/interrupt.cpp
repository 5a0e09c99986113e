#include "interrupt.h"

#include <csignal>

namespace dllm::cli {
namespace {

dllm_task* interrupted_task = nullptr;  // what Ctrl-C cancels

void on_interrupt(int) {
  dllm_task_cancel(interrupted_task);
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt(dllm_task* task) : before_(interrupted_task) {
  interrupted_task = task;
  handler_before_ = std::signal(SIGINT, on_interrupt);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, handler_before_);
  interrupted_task = before_;
}

}  // namespace dllm::cli

#pragma once
// While one lives, the first Ctrl-C, SIGTERM or SIGHUP requests the running call to finish its step; the second ends the
// process.

#include "dllm/task.h"

namespace dllm::cli {

class Interrupt {
 public:
  explicit Interrupt(dllm_task* task);  // not NULL, outlives this object
  ~Interrupt();                         // back to what was before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  static constexpr int kCount = 3;  // signals
  dllm_task* before_;
  void (*handlers_before_[kCount])(int);
};

// Exit code of a program that a signal ended: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
int interrupted_code();

}  // namespace dllm::cli

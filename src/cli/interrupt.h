#pragma once
// While one lives, the first Ctrl-C asks the running call to finish its step; the second ends the process.

#include "dllm/task.h"

namespace dllm::cli {

class Interrupt {
 public:
  explicit Interrupt(dllm_task* task);  // not NULL, outlives this object
  ~Interrupt();                         // back to what was before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  dllm_task* before_;
  void (*handler_before_)(int);
};

}  // namespace dllm::cli

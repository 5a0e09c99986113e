#pragma once

namespace dllm::cpu {

// RunPause pauses a run when the time budget of its caller is used up (Decoder::step_for). look()
// is called between two operations, and between the parts of a long operation. The caller is the
// thread that runs the program, outside of a job of its pool. So a paused run holds no lock or
// worker that others wait for.
class RunPause {
public:
  virtual ~RunPause() = default;
  virtual void look() = 0; // throws when the run was cancelled during the pause
};

} // namespace dllm::cpu

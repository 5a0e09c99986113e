#pragma once

namespace dllm::cpu {

// Leaves a run for a while where its caller's budget is used up (Decoder::step_for). Asked between two operations, and by
// an operation that takes long between its parts, on the thread that runs the program and outside of a job of its pool:
// then the run holds nothing that others wait for.
class RunPause {
public:
  virtual ~RunPause() = default;
  virtual void look() = 0; // throws when the run was cancelled meanwhile
};

} // namespace dllm::cpu

#pragma once
// Walks the steps of a frame. State of one run; the frame itself is read-only.

#include "base/task.h"
#include "cpu/plan.h"

#include <span>
#include <string>
#include <vector>

namespace dllm::cpu {

class RunPause;

struct RunContext {
  Workers pool;
  bool check_finite = false;
  // Not null: gets the first operation that makes NaN or infinity, and the run goes on. -infinity
  // is left out: masks are made of it.
  std::string* finding = nullptr;
  int64_t index = -1; // of the element a scan is at; -1: outside of one
  comm::Communicator* communicator = nullptr; // of a program of several ranks
  std::span<const int64_t> all_ranks = {};    // with a communicator: 0, 1, ..
  RunPause* pause = nullptr;                  // of a run that may be left between two steps
};

// Leaves a run for a while where its caller's budget is used up. Holds nothing that others wait for.
class RunPause {
public:
  virtual ~RunPause() = default;
  virtual void between_steps() = 0; // throws when the run was cancelled meanwhile
};

class FrameRun {
public:
  // arena: frame.arena_bytes, aligned. The frame outlives the run.
  FrameRun(const Frame& frame, std::byte* arena);

  // Operands in the order of the graph's inputs and outputs. An output that takes over an input has
  // the input's operand and ignores its own. May be called again with other operands (a loop does).
  // *step, when given, counts the steps that were started: after an exception it tells whether
  // inputs were written. From step `stops_before` on the task is not checked; with a communicator all
  // ranks meet there first.
  void run(std::span<const Operand> inputs, std::span<const Operand> outputs,
           const RunContext& context, int32_t* step = nullptr, int32_t stops_before = INT32_MAX);

private:
  void resolve(std::span<const Operand> inputs, std::span<const Operand> outputs);
  void run_step(const Step& step, const RunContext& context);

  const Frame& frame_;
  std::byte* arena_;
  std::vector<Operand> values_;   // by value id
  std::vector<Operand> operands_; // of the current step: inputs, then outputs
};

// Runs a planned loop as one step.
void run_loop(const Loop& loop, const graph::Node& node, const KernelCall& call,
              const RunContext& context);

} // namespace dllm::cpu

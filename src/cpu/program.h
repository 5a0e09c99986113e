#pragma once
// FrameRun runs a frame step by step. CpuProgram is a graph with its plan.

#include "base/task.h"
#include "cpu/buffer.h"
#include "cpu/engine.h"
#include "cpu/plan.h"

#include <span>
#include <string>
#include <vector>

namespace dllm::cpu {

struct RunContext {
  Workers pool;
  bool check_finite = false;
  // When not null it receives a text about the first operation that makes NaN or +infinity. The run
  // goes on. -infinity is allowed, because masks consist of it.
  std::string* finding = nullptr;
  int64_t index = -1;                         // element of the scan that runs; -1: no scan
  comm::Communicator* communicator = nullptr; // null: one rank
  std::span<const int64_t> all_ranks = {};    // 0, 1, .. where there is a communicator
  RunPause* pause = nullptr;                  // null: the run is never paused
};

class FrameRun {
public:
  // `arena` has frame.arena_bytes and is 64-byte aligned. REQUIRES: the frame outlives the run.
  FrameRun(const Frame& frame, std::byte* arena);

  // Runs all steps. The operands are in the order of the graph's inputs and outputs. An output that
  // takes over an input uses the input's operand and ignores its own. A loop calls run() again with
  // other operands. *step, when not null, is the number of the step that was started last. After an
  // exception it shows whether inputs were written. From step `stops_before` on, the task is not
  // checked. With a communicator all ranks meet before that step.
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

class CpuProgram final : public graph::Program {
public:
  // Plans the graph. Fails with resource_exhausted when its peak is above the engine's limit.
  CpuProgram(std::shared_ptr<EngineState> state, std::shared_ptr<const graph::Graph> source,
             const graph::Placement& place, bool fuses = true);

  const graph::Graph& graph() const override { return *source_; }
  const graph::PlanReport& plan() const override { return report_; }
  graph::Placement placement() const override { return place_; }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override;
  std::string find_non_finite(std::span<const graph::BufferRef> inputs, const Task* task) override;

private:
  // The operands of one run. A run does not change the program, so several threads may run it at
  // the same time. Each run has a binding, a FrameRun and an arena of its own.
  struct Binding {
    std::span<const graph::BufferRef> inputs;
    std::vector<Operand> in, out;
    std::vector<std::shared_ptr<Block>> blocks; // by output
    bool overwrites = false;                    // the run writes into the storage of an input
  };
  void fill_report();
  void check_inputs(std::span<const graph::BufferRef> inputs) const;
  CpuBuffer& buffer_at(const Binding& binding, size_t input) const;
  void bind_inputs(Binding& binding, const Workers& workers) const;
  void bind_outputs(Binding& binding, const Workers& workers) const;
  std::shared_ptr<Block> output_block(Binding& binding, size_t output,
                                      const Workers& workers) const;
  std::shared_ptr<Block> take_arena() const;
  std::vector<graph::BufferRef> execute(Binding& binding, const RunContext& context,
                                        graph::StopRule rule, RunGate::Pass& pass) const;
  std::vector<graph::BufferRef> run_bound(std::span<const graph::BufferRef> inputs,
                                          RunContext context, graph::StopRule rule) const;
  // Runs `work`. In a program of several ranks any failure ends the run of the other ranks.
  template <class F> auto with_other_ranks(const Task* task, F&& work) const;
  [[noreturn]] void fail_run(const Binding& binding, const Error& error) const;
  void keep_in_arena(Binding& binding, const std::shared_ptr<const Block>& arena) const;
  std::vector<graph::BufferRef> results(Binding& binding) const;

  std::shared_ptr<EngineState> state_;
  std::shared_ptr<const graph::Graph> source_;
  const graph::Placement place_;
  const bool fuses_; // elementwise steps run as one; false where each result is checked
  comm::Communicator* const communicator_; // null for a mesh of one rank
  std::vector<int64_t> all_ranks_;         // of place_.mesh
  Frame frame_;
  graph::PlanReport report_;
};

} // namespace dllm::cpu

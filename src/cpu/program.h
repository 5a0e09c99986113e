#pragma once
// A run of a frame, step by step, and a graph with its plan as a program.

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
  // Not null: gets the first operation that makes NaN or infinity, and the run goes on. -infinity
  // is left out: masks are made of it.
  std::string* finding = nullptr;
  int64_t index = -1;                         // of the element a scan is at; -1: outside of one
  comm::Communicator* communicator = nullptr; // of a program of several ranks
  std::span<const int64_t> all_ranks = {};    // with a communicator: 0, 1, ..
  RunPause* pause = nullptr;                  // of a run that may be left for a while
};

class FrameRun {
public:
  // arena: frame.arena_bytes, aligned. The frame outlives the run.
  FrameRun(const Frame& frame, std::byte* arena);

  // Operands in the order of the graph's inputs and outputs. An output that takes over an input has
  // the input's operand and ignores its own. May be called again with other operands (a loop does).
  // *step, when given, counts the steps that were started: after an exception it shows whether
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

class CpuProgram final : public graph::Program {
public:
  // Plans; fails with resource_exhausted when the peak is over the engine's limit.
  CpuProgram(std::shared_ptr<EngineState> state, std::shared_ptr<const graph::Graph> source,
             const graph::Placement& place, bool fuses = true);

  const graph::Graph& graph() const override { return *source_; }
  const graph::PlanReport& plan() const override { return report_; }
  graph::Placement placement() const override { return place_; }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override;
  std::string find_non_finite(std::span<const graph::BufferRef> inputs, const Task* task) override;

private:
  // One run: the places of its operands. The program itself does not change in a run, so that several threads
  // may run it at once; each run has a binding, a FrameRun and an arena of its own.
  struct Binding {
    std::span<const graph::BufferRef> inputs;
    std::vector<Operand> in, out;
    std::vector<std::shared_ptr<Block>> blocks; // by output
    bool overwrites = false;                    // an input's own storage will be written
  };
  void fill_report();
  void check_inputs(std::span<const graph::BufferRef> inputs) const;
  CpuBuffer& buffer_at(const Binding& binding, size_t input) const;
  void bind_inputs(Binding& binding, const Workers& workers) const;
  void bind_outputs(Binding& binding, const Workers& workers) const;
  std::shared_ptr<Block> output_block(Binding& binding, size_t output,
                                      const Workers& workers) const;
  std::vector<graph::BufferRef> execute(Binding& binding, const RunContext& context,
                                        graph::StopRule rule, RunGate::Pass& pass) const;
  std::vector<graph::BufferRef> run_bound(std::span<const graph::BufferRef> inputs,
                                          RunContext context, graph::StopRule rule) const;
  // Runs `work`; in a program of several ranks a failure of any kind ends the run of the other ranks.
  template <class F> auto with_other_ranks(const Task* task, F&& work) const;
  [[noreturn]] void fail_run(const Binding& binding, const Error& error) const;
  std::vector<graph::BufferRef> results(Binding& binding) const;

  std::shared_ptr<EngineState> state_;
  std::shared_ptr<const graph::Graph> source_;
  const graph::Placement place_;
  const bool fuses_; // elementwise steps run as one: not where each result is looked at
  comm::Communicator* const communicator_; // null for a mesh of one
  std::vector<int64_t> all_ranks_;         // of place_.mesh
  Frame frame_;
  graph::PlanReport report_;
};

} // namespace dllm::cpu

#pragma once
// A graph with its plan, ready to run on the CPU.

#include "cpu/buffer.h"
#include "cpu/engine.h"
#include "cpu/executor.h"
#include "cpu/plan.h"

#include <vector>

namespace dllm::cpu {

class CpuProgram final : public graph::Program {
public:
  // Plans; fails with resource_exhausted when the peak is over the engine's limit.
  CpuProgram(std::shared_ptr<EngineState> state, std::shared_ptr<const graph::Graph> source,
             const graph::Placement& place);

  const graph::Graph& graph() const override { return *source_; }
  const graph::PlanReport& plan() const override { return report_; }
  graph::Placement placement() const override { return place_; }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs,
                                    const Task* task, graph::StopRule rule) override;
  std::string find_non_finite(std::span<const graph::BufferRef> inputs, const Task* task) override;

private:
  // One run: where its operands lie. The program itself does not change in a run, so that several threads
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
  std::shared_ptr<Block> output_block(Binding& binding, size_t output, const Workers& workers) const;
  std::vector<graph::BufferRef> execute(Binding& binding, const RunContext& context,
                                        graph::StopRule rule, RunGate::Pass& pass) const;
  std::vector<graph::BufferRef> run_bound(std::span<const graph::BufferRef> inputs, RunContext context,
                                          graph::StopRule rule) const;
  // Runs `work`; in a program of several ranks a failure of any kind ends the run of the other ranks.
  template <class F> auto with_other_ranks(F&& work) const;
  [[noreturn]] void fail_run(const Binding& binding, const Error& error) const;
  std::vector<graph::BufferRef> results(Binding& binding) const;

  std::shared_ptr<EngineState> state_;
  std::shared_ptr<const graph::Graph> source_;
  const graph::Placement place_;
  comm::Communicator* const communicator_; // null for a mesh of one
  std::vector<int64_t> all_ranks_;         // of place_.mesh
  Frame frame_;
  graph::PlanReport report_;
};

} // namespace dllm::cpu

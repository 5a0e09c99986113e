#pragma once
// Fused operations as primitives: what compilers fuse by themselves is left to them, nothing large is ever whole.

#include "graph/graph.h"
#include "graph/ops.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::pjrt {

// Fused operations as graphs of primitives that suit a compiler which fuses elementwise work by
// itself: nothing as large as a table of scores or logits is ever held whole.

// The same inputs and outputs (names, order, donation); only operations without a definition
// remain, in the bodies of scan and while too.
std::shared_ptr<const graph::Graph> lower(const graph::Graph& source);

// Every file of this folder that is named after an operation hands its definition to the table in
// lower.cpp; operations that are not named here are lowered by OpDef::decompose.

using Results = std::vector<graph::Value>;
using Operands = std::span<const graph::Value>;

Results lower_attention(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_attention_grad(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_expert_linear(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_expert_linear_input_grad(graph::Graph& graph, const graph::Node& node,
                                       Operands inputs);
Results lower_expert_linear_weight_grad(graph::Graph& graph, const graph::Node& node,
                                        Operands inputs);
Results lower_linear(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_linear_input_grad(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_linear_cross_entropy(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_linear_cross_entropy_grad(graph::Graph& graph, const graph::Node& node,
                                        Operands inputs);
Results lower_token_statistics(graph::Graph& graph, const graph::Node& node, Operands inputs);

// Building the body of a scan or of a counted loop: each value of the outer graph that the body
// works on is declared once and stands for itself inside.

// The mesh axes over which any of the values varies: those of everything made from all of them.
graph::AxisSet axes_of(std::span<const graph::Value> values);

// Values that change from step to step are declared first, then elements of stacked arrays, then
// values that stay.
class LoopBody {
public:
  LoopBody(const std::string& name, graph::AxisSet axes);

  graph::Graph& graph() { return *body_; }
  // From step to step, beginning with `start`.
  graph::Value state(graph::Value start);
  // The same in every step; an undefined value stays undefined.
  graph::Value outside(graph::Value value);

protected:
  graph::Value declare(const Shape& shape, DType dtype);
  void give(const std::vector<graph::Value>& results);
  // A loop whose condition sees the first state and the last operand; returns the other states.
  std::vector<graph::Value>
  run_while(graph::Value first_next, const std::vector<graph::Value>& next,
            graph::Value (*goes_on)(graph::Value first, graph::Value last));

  std::shared_ptr<graph::Graph> body_;
  graph::AxisSet axes_;
  std::vector<graph::Value> state_, elements_, outside_;
};

// `count` steps.
class ScanBody : public LoopBody {
public:
  using LoopBody::LoopBody;
  // stacked (count, ...) -> (...): the part of this step.
  graph::Value element(graph::Value stacked);
  // next: one per state; results: stacked to (count, ...).
  graph::ScanResult run(const std::vector<graph::Value>& next,
                        const std::vector<graph::Value>& results, int64_t count);
};

// Steps 0, 1, .. below a limit known at run time, i32() of the outer graph.
class CountedLoop : public LoopBody {
public:
  CountedLoop(const std::string& name, graph::AxisSet axes, graph::Value limit);
  graph::Value step() const { return step_; } // i32()
  std::vector<graph::Value> run(const std::vector<graph::Value>& next);

private:
  graph::Value limit_, step_;
};

// At most one step: there is no other branch in a graph. Work for the rows whose demand is
// positive, f32(rows); what is computed must depend on demand(), since compilers move everything
// else out of the loop and do it always. (So a counter would not do.)
class OnDemand : public LoopBody {
public:
  OnDemand(const std::string& name, graph::AxisSet axes, graph::Value demand);
  graph::Value demand() const { return demand_; }
  std::vector<graph::Value> run(const std::vector<graph::Value>& next);

private:
  graph::Value demand_;
};

// --- small steps of building that the lowerings share ---
graph::Value zeros(graph::Graph& graph, Shape shape);
graph::Value column(graph::Value row);              // (n) -> (n, 1)
graph::Value times(graph::Value x, int64_t factor); // i32
// Rows [begin, begin + count) of the first axis; begin i32().
graph::Value rows_at(graph::Value x, graph::Value begin, int64_t count);
graph::Value put_rows(graph::Value x, graph::Value rows, graph::Value begin);
// The first axis made `rows` long at its end.
graph::Value pad_rows(graph::Value x, int64_t rows, double fill);

} // namespace dllm::pjrt

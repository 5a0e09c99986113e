#pragma once
// lower() replaces fused operations by primitives. Compilers fuse elementwise operations by
// themselves; tables of scores or logits, which are large, are computed in parts.

#include "graph/graph.h"
#include "graph/ops.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::pjrt {

// Returns a graph with the same inputs and outputs (names, order, donation). Only operations
// without a definition remain, also in the bodies of scan and while.
std::shared_ptr<const graph::Graph> lower(const graph::Graph& source);

// The table in lower.cpp lists the definitions below. OpDef::decompose lowers all other operations.

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
// Lowers `take` of a table in blocks. Other tables stay as they are.
Results lower_take_blocks(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_token_statistics(graph::Graph& graph, const graph::Node& node, Operands inputs);

// Returns the mesh axes over which at least one of the values varies. A result of all values varies
// over these axes.
graph::AxisSet axes_of(std::span<const graph::Value> values);

// Builds the body of a loop. Every value of the outer graph that the body uses must be declared,
// which returns the value inside the body. Order of declarations: values that change from step to
// step, then elements of stacked arrays, then values that stay the same.
class LoopBody {
public:
  LoopBody(const std::string& name, graph::AxisSet axes);

  graph::Graph& graph() { return *body_; }
  // Declares a value that changes from step to step, beginning with `start`.
  graph::Value state(graph::Value start);
  // Declares a value that is the same in every step. An undefined value stays undefined.
  graph::Value outside(graph::Value value);

protected:
  graph::Value declare(graph::ValueType type); // with the axes of the loop
  void give(const std::vector<graph::Value>& results);
  // Writes a while loop that goes on while goes_on(first state, last operand) is true. Returns the
  // other states.
  std::vector<graph::Value>
  run_while(graph::Value first_next, const std::vector<graph::Value>& next,
            graph::Value (*goes_on)(graph::Value first, graph::Value last));

  std::shared_ptr<graph::Graph> body_;
  graph::AxisSet axes_;
  std::vector<graph::Value> state_, elements_, outside_;
};

// A loop of a fixed number of steps.
class ScanBody : public LoopBody {
public:
  using LoopBody::LoopBody;
  // Declares a stacked array (count, ...) and returns the element (...) of the step.
  graph::Value element(graph::Value stacked);
  // Writes the loop. next: the next value of each state. results: values that are stacked to
  // (count, ...).
  graph::ScanResult run(const std::vector<graph::Value>& next,
                        const std::vector<graph::Value>& results, int64_t count);
};

// A loop over steps 0, 1, .., limit - 1. The limit is an i32() of the outer graph that is computed
// at run time.
class CountedLoop : public LoopBody {
public:
  CountedLoop(const std::string& name, graph::AxisSet axes, graph::Value limit);
  graph::Value step() const { return step_; } // i32(): the number of the step
  std::vector<graph::Value> run(const std::vector<graph::Value>& next);

private:
  graph::Value limit_, step_;
};

// A branch, written as a loop of at most one step, because graphs have no branches. The body runs
// if the demand f32(rows) of any row is positive. REQUIRES: the work in the body depends on
// demand(). Compilers move other work out of the loop and always do it, so a counter would not
// suffice.
class OnDemand : public LoopBody {
public:
  OnDemand(const std::string& name, graph::AxisSet axes, graph::Value demand);
  graph::Value demand() const { return demand_; }
  std::vector<graph::Value> run(const std::vector<graph::Value>& next);

private:
  graph::Value demand_;
};

// Small functions that the lowerings share.

graph::Value zeros(graph::Graph& graph, Shape shape);
graph::Value column(graph::Value row);              // (n) -> (n, 1)
graph::Value times(graph::Value x, int64_t factor); // for an i32 x
// Read and replace rows [begin, begin + count) of the first axis; begin i32().
graph::Value rows_at(graph::Value x, graph::Value begin, int64_t count);
graph::Value put_rows(graph::Value x, graph::Value rows, graph::Value begin);
// Appends rows of `fill` until the first axis has `rows` rows.
graph::Value pad_rows(graph::Value x, int64_t rows, double fill);

} // namespace dllm::pjrt

#pragma once
// Graphs made from graphs: passes, each of which returns a new graph with the same inputs and outputs (names, order,
// donation), copies of graphs, on which they are built, and reverse mode.

#include "graph/graph.h"
#include "graph/mesh.h"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::graph {

std::shared_ptr<Graph> remove_dead_code(const Graph& graph);
std::shared_ptr<Graph>
merge_common_nodes(const Graph& graph); // common subexpressions, bodies included
std::shared_ptr<Graph>
fold_constants(const Graph& graph); // small integer and float arithmetic on literals
std::shared_ptr<Graph> simplify(const Graph& graph); // the three, in a fixed order
// linear_cross_entropy and its gradient as one operation, where the weight of a row does not depend on the loss. Nodes of
// the outermost graph alone.
std::shared_ptr<Graph> join_loss_gradients(std::shared_ptr<Graph> graph);
// Sums of arrays that zeros pad, each into a place of its own, as concatenations; bodies included. A -0 stays one, of which the sum
// makes +0.
std::shared_ptr<Graph> join_pads(std::shared_ptr<Graph> graph);
// Every fused op replaced by its definition; `except` names ops to leave alone.
std::shared_ptr<Graph> decompose(const Graph& graph, std::span<const std::string> except = {});
// A node's definition in other operations, as OpDef::decompose; null leaves the node alone.
using Definition = std::vector<Value> (*)(Graph&, const Node&, std::span<const Value> inputs);
// Every op replaced by the definition that is answered for it, again and again until none is answered.
std::shared_ptr<Graph> decompose(const Graph& graph,
                                 const std::function<Definition(const OpDef&)>& definition_of);
// Floating-point operations of one run, scans multiplied out (a multiply-add is 2).
double count_flops(const Graph& graph);
// Those of one node, without its bodies.
double count_flops(const Graph& graph, const Node& node);

// What one kind of collective operation does in one run: scans multiplied out, the body of a while loop counted once.
struct Exchange {
  double calls = 0;
  double bytes = 0; // that one rank sends
};
// By the name of the operation; those over a group of one rank are left out.
std::map<std::string, Exchange> count_exchanges(const Graph& graph, const Mesh& mesh);

// Copies nodes of one graph into another, value by value; passes and gradients are built on it.

class Cloner {
public:
  Cloner(const Graph& from, Graph& to) : from_(from), to_(to) {}

  const Graph& from() const { return from_; }
  void map(int32_t from_value, Value to_value);
  bool has(int32_t from_value) const { return find(from_value) != nullptr; }
  Value at(int32_t from_value) const; // fails with internal when not mapped
  std::vector<Value> at(std::span<const int32_t> from_values) const;

  // Declares every input of the source in the target.
  void inputs();
  // Copies one node whose operands are mapped; gives the new results.
  std::vector<Value> node(int32_t index);
  // Declares every output of the source in the target, donation included.
  void outputs();

private:
  const Value* find(int32_t from_value) const;

  const Graph& from_;
  Graph& to_;
  std::vector<Value> values_;
};

// Which nodes the outputs need; one entry per node.
std::vector<bool> live_nodes(const Graph& graph, std::span<const int32_t> roots);

// The walk that all passes share: copy a graph node by node, let the pass replace some.

// Bodies are rewritten once each, so nodes that share a body still share it afterwards.
using BodyMemo = std::map<const Graph*, std::shared_ptr<const Graph>>;

// replace(cloner, index, bodies): copies or replaces node `index` and maps its results; bodies are
// rewritten already.
using Replace =
    std::function<void(Cloner&, Graph&, int32_t index, std::vector<std::shared_ptr<const Graph>>)>;
std::shared_ptr<Graph> rewrite(const Graph& graph, const Replace& replace, BodyMemo& memo);

// Copies a node with other bodies.
void copy_node(Cloner& cloner, Graph& to, int32_t index,
               std::vector<std::shared_ptr<const Graph>> bodies);

// Reverse mode over a range of nodes: shared by gradients(), the gradient of scan and the gradient through a
// definition.

// Gradients flow through values of these types; each has the type of its value.
bool is_differentiable(DType dtype);

// Pulls `seeds` (gradients of `outputs`; undefined: none) back to `wrt` through the nodes of index
// >= first_node that exist now; gradients of earlier values stop at `wrt`. Returns one
// Value per wrt, undefined where no gradient arrives.
std::vector<Value> pull_back(Graph& graph, std::span<const Value> outputs,
                             std::span<const Value> seeds, std::span<const Value> wrt,
                             int32_t first_node = 0);

// Why `x` has no gradient: the first conversion to whole numbers between it and `loss`, as "[convert] to i8(4, 3)". "" when
// no path from x to loss is cut by a conversion alone; argmax, comparisons and indices of top_k cut a path as well.
std::string cut_by_conversion(const Graph& graph, Value x, Value loss);

} // namespace dllm::graph

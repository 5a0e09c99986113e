#pragma once
// Declares the passes over graphs, the copying of graphs on which they are built, and reverse-mode
// differentiation. A pass returns a new graph with the same inputs and outputs (names, order,
// donation).

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
// Merges nodes that compute the same values, also in bodies.
std::shared_ptr<Graph> merge_common_nodes(const Graph& graph);
// Computes small integer and float arithmetic on literals.
std::shared_ptr<Graph> fold_constants(const Graph& graph);
// Runs the three passes above in a fixed order.
std::shared_ptr<Graph> simplify(const Graph& graph);
// Joins linear_cross_entropy and its gradient into one operation if the gradient's row weights do
// not depend on the loss. Changes only nodes of the outermost graph.
std::shared_ptr<Graph> join_loss_gradients(std::shared_ptr<Graph> graph);
// Replaces a sum of zero-padded arrays that do not overlap by one concatenation, also in bodies.
// The results differ for -0, which the concatenation keeps and the sum turns into +0.
std::shared_ptr<Graph> join_pads(std::shared_ptr<Graph> graph);
// Replaces every fused operation by its definition, except the operations named in `except`.
std::shared_ptr<Graph> decompose(const Graph& graph, std::span<const std::string> except = {});
// A node's definition in other operations, as OpDef::decompose; null keeps the node.
using Definition = std::vector<Value> (*)(Graph&, const Node&, std::span<const Value> inputs);
// Replaces every node by the definition that definition_of returns, and the nodes of the definition
// too, until definition_of returns null for all.
using DefinitionOf = std::function<Definition(const Graph&, const Node&)>;
std::shared_ptr<Graph> decompose(const Graph& graph, const DefinitionOf& definition_of);
// Returns the floating-point operations of one run. A scan counts every step; a multiply-add is 2.
double count_flops(const Graph& graph);
// Returns the floating-point operations of one node, without its bodies.
double count_flops(const Graph& graph, const Node& node);

// Calls and bytes of one kind of collective operation in one run. A scan counts every step; the
// body of a while loop counts once.
struct Exchange {
  double calls = 0;
  double bytes = 0; // bytes that one rank sends
};
// Returns the exchanges of a graph by the name of the operation, without exchanges in a group of
// one rank.
std::map<std::string, Exchange> count_exchanges(const Graph& graph, const Mesh& mesh);

// Copies nodes of one graph into another. It maps values of the source to values of the target.
class Cloner {
public:
  Cloner(const Graph& from, Graph& to) : from_(from), to_(to) {}

  const Graph& from() const { return from_; }
  void map(int32_t from_value, Value to_value);
  bool has(int32_t from_value) const { return find(from_value) != nullptr; }
  Value at(int32_t from_value) const; // fails with internal if not mapped
  std::vector<Value> at(std::span<const int32_t> from_values) const;

  // Declares every input of the source in the target.
  void inputs();
  // Copies one node, maps its results and returns the new ones. REQUIRES: its operands are mapped.
  std::vector<Value> node(int32_t index);
  // Declares every output of the source in the target, donation included.
  void outputs();

private:
  const Value* find(int32_t from_value) const;

  const Graph& from_;
  Graph& to_;
  std::vector<Value> values_;
};

// Returns, for every node, whether the values `roots` depend on it.
std::vector<bool> live_nodes(const Graph& graph, std::span<const int32_t> roots);

// The rewritten bodies. A body is rewritten once, so nodes that share a body still share it.
using BodyMemo = std::map<const Graph*, std::shared_ptr<const Graph>>;

// Copies or replaces node `index` of the source and maps its results. The bodies it receives are
// rewritten already.
using Replace =
    std::function<void(Cloner&, Graph&, int32_t index, std::vector<std::shared_ptr<const Graph>>)>;
// Copies a graph and its bodies and calls `replace` for every node. All passes use it.
std::shared_ptr<Graph> rewrite(const Graph& graph, const Replace& replace, BodyMemo& memo);

// Copies a node with other bodies and maps its results.
void copy_node(Cloner& cloner, Graph& to, int32_t index,
               std::vector<std::shared_ptr<const Graph>> bodies);

// Returns true if values of this type have gradients. A gradient has the type of its value.
bool is_differentiable(DType dtype);

// Returns the gradients of `wrt`, undefined for a value that no gradient reaches. seeds: the
// gradients of `outputs`; undefined for none. Gradients pass through the existing nodes from
// first_node on. gradients(), the gradient of scan and the gradient through a definition use it.
std::vector<Value> pull_back(Graph& graph, std::span<const Value> outputs,
                             std::span<const Value> seeds, std::span<const Value> wrt,
                             int32_t first_node = 0);

// Returns the first conversion to whole numbers between x and `loss`, as "[convert] to i8(4, 3)",
// which explains why x has no gradient. Returns "" if no path is cut by a conversion alone; argmax,
// comparisons and the indices of top_k cut a path too.
std::string cut_by_conversion(const Graph& graph, Value x, Value loss);

} // namespace dllm::graph

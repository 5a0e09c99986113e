#pragma once
// Copies of graphs: value by value, and the walk that all passes share.

#include "graph/graph.h"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace dllm::graph {

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

} // namespace dllm::graph

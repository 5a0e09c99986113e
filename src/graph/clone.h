#pragma once
// Copies nodes of one graph into another, value by value; passes and gradients are built on it.

#include "graph/graph.h"

#include <vector>

namespace dllm::graph {

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

} // namespace dllm::graph

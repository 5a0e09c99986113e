#pragma once
// The oracle's arrays and its table of operations that need one rank only.

#include "graph/graph.h"

#include <string_view>
#include <vector>

namespace dllm::graph::test {

// Every number as a double: exact for all integer types of a graph.
struct Array {
  ValueType type;
  std::vector<double> data;
};

struct LocalCall {
  const Graph& graph;
  const Node& node;
  const std::vector<const Array*>& in;
  const ValueType& result(size_t i = 0) const { return graph.type(node.outputs[i]); }
};
using LocalOp = std::vector<Array> (*)(const LocalCall&);

// Null when the operation is not in the table.
LocalOp find_local_op(std::string_view op);

Array from_tensor(const Tensor& tensor, const ValueType& type);
Tensor to_tensor(const Array& array);

} // namespace dllm::graph::test

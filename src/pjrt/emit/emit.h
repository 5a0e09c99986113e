#pragma once
// A graph as the text of one StableHLO module: the input of every plugin's compiler.

#include "graph/graph.h"
#include "graph/mesh.h"
#include "tensor/dtype.h"

#include <string>

namespace dllm::pjrt {

struct EmitOptions {
  graph::Mesh mesh;                  // ranks the program runs on, one replica each
  DType compute = DType::f32;        // of products: bf16 rounds their operands, sums stay f32
  std::string precision = "highest"; // of f32 products: highest, high or default
};

// One module with one public function, main: its arguments are graph.inputs(), its results
// graph.outputs(), both in order; an output that takes over an input is tied to it by
// tf.aliasing_output. Equal graphs and options give equal bytes. Fails with unimplemented for an
// operation that has no form here (lower the graph first), with invalid_argument when collectives
// do not fit the mesh.
std::string emit(const graph::Graph& graph, const EmitOptions& options);

} // namespace dllm::pjrt

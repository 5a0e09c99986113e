#pragma once
// Named arrays as inputs of a graph.

#include "graph/graph.h"
#include "tensor/batch.h"

#include <map>
#include <string>

namespace dllm::runtime {

// Name, type and shape of every array: programs with equal ones can be shared.
std::string feed_signature(const Batch& feed);

// One graph input for every array, in the order of the batch, called "batch:<name>" so that it cannot be taken for an
// array of the program's owner. Arguments::upload finds them again.
std::map<std::string, graph::Value> feed_inputs(graph::Graph& graph, const Batch& feed);

}  // namespace dllm::runtime

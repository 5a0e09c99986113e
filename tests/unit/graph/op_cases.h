#pragma once
// At least one small graph with odd sizes per operation, with inputs: what the registry test, and
// the tests of an engine's kernels, run over.

#include "graph/graph.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::graph::test {

struct OpCase {
  std::string op;    // registry name
  std::string label; // "attention/causal+window"
  std::shared_ptr<Graph> graph;
  std::vector<Tensor> inputs;       // in the order of graph->inputs()
  std::vector<size_t> wrt;          // inputs a gradient is taken of
  std::vector<size_t> grad_outputs; // outputs that enter the loss
};

std::vector<OpCase> op_cases();

} // namespace dllm::graph::test

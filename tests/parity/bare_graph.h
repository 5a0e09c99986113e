#pragma once
// A graph of operations without a model, and the numbers of its inputs.

#include "graph/engine.h"
#include "graph/graph.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::parity {

// Inputs of a graph with their numbers.
class BareGraph {
public:
  explicit BareGraph(const char* name) : graph(std::make_shared<graph::Graph>(name)) {}
  graph::Value input(const std::string& name, const Tensor& numbers) {
    numbers_.push_back(numbers);
    values.push_back(graph->input(name, numbers.dtype(), numbers.shape()));
    return values.back();
  }
  std::vector<Tensor> run(graph::Engine& engine) const {
    std::vector<graph::BufferRef> inputs;
    for (const Tensor& numbers : numbers_) inputs.push_back(engine.upload(numbers));
    std::vector<Tensor> results;
    for (const graph::BufferRef& output : engine.compile(graph)->run(inputs))
      results.push_back(output->read().clone());
    return results;
  }

  std::shared_ptr<graph::Graph> graph;
  std::vector<graph::Value> values; // the inputs

private:
  std::vector<Tensor> numbers_;
};

} // namespace dllm::parity

#pragma once
// A loop of steps: a body that computes the next values of a state, run until its condition fails.

#include "graph/graph.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::decode {

// The values of a loop that the body passes to its next step. They are the first inputs of the
// body, and its outputs in the same order.
struct StepLoop {
  std::shared_ptr<graph::Graph> body;
  std::vector<std::string> state; // names of the state
  // Values of the program that inputs of the body are, by name.
  std::map<std::string, graph::Value> given = {};
  // Returns the number with which a value of the state begins. Nothing: it is an input of the
  // program. Called with the names of `state`.
  std::function<std::optional<int32_t>(const std::string& name)> begin;
  // Returns whether another step follows, u8(), from inputs of the body by name.
  std::function<graph::Value(const std::function<graph::Value(const char* name)>& given)> goes_on;
};

// The values of a state after the last step.
class LoopEnd {
public:
  LoopEnd(const std::vector<std::string>& names, std::vector<graph::Value> values)
      : names_(names), values_(std::move(values)) {}
  graph::Value value(const std::string& name) const;

private:
  const std::vector<std::string>& names_;
  std::vector<graph::Value> values_;
};

// Adds the loop to `graph`. Inputs of the body that are neither state nor given become inputs of
// `graph`, which may have them already.
LoopEnd add_loop(graph::Graph& graph, const StepLoop& loop);

} // namespace dllm::decode

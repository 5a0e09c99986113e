#pragma once
// The walk that all passes share: copy a graph node by node, let the pass replace some.

#include "graph/clone.h"

#include <functional>
#include <map>
#include <memory>

namespace dllm::graph {

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

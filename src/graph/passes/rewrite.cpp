#include "graph/passes/rewrite.h"

namespace dllm::graph {

std::shared_ptr<Graph> rewrite(const Graph& graph, const Replace& replace, BodyMemo& memo) {
  auto made = std::make_shared<Graph>(graph.name());
  Cloner cloner(graph, *made);
  cloner.inputs();
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    std::vector<std::shared_ptr<const Graph>> bodies;
    for (const auto& body : graph.nodes()[n].bodies) {
      std::shared_ptr<const Graph>& known = memo[body.get()];
      if (known == nullptr) known = rewrite(*body, replace, memo);
      bodies.push_back(known);
    }
    replace(cloner, *made, static_cast<int32_t>(n), std::move(bodies));
  }
  cloner.outputs();
  return made;
}

void copy_node(Cloner& cloner, Graph& to, int32_t index,
               std::vector<std::shared_ptr<const Graph>> bodies) {
  const Node& node = cloner.from().nodes()[static_cast<size_t>(index)];
  const auto made =
      to.add(*node.op, cloner.at(node.inputs), node.attributes, std::move(bodies), node.literal);
  for (size_t i = 0; i < made.size(); ++i) cloner.map(node.outputs[i], made[i]);
}

} // namespace dllm::graph

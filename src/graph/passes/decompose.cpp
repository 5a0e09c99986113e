// decompose: every fused operation replaced by its definition in other operations.

#include "graph/clone.h"
#include "graph/op.h"
#include "graph/passes.h"

#include <algorithm>

namespace dllm::graph {

std::shared_ptr<Graph> decompose(const Graph& graph,
                                 const std::function<Definition(const OpDef&)>& definition_of) {
  bool again = false;
  const Replace replace = [&](Cloner& cloner, Graph& to, int32_t index,
                              std::vector<std::shared_ptr<const Graph>> bodies) {
    const Node& node = cloner.from().nodes()[static_cast<size_t>(index)];
    const Definition definition = definition_of(*node.op);
    if (definition == nullptr) return copy_node(cloner, to, index, std::move(bodies));
    const size_t before = to.nodes().size();
    const std::vector<Value> made = definition(to, node, cloner.at(node.inputs));
    for (size_t i = 0; i < made.size(); ++i) cloner.map(node.outputs[i], made[i]);
    // A definition may use fused operations itself.
    for (size_t n = before; n < to.nodes().size(); ++n)
      again = again || definition_of(*to.nodes()[n].op) != nullptr;
  };
  BodyMemo memo;
  std::shared_ptr<Graph> plain = rewrite(graph, replace, memo);
  while (again) {
    again = false;
    BodyMemo fresh;
    plain = rewrite(*plain, replace, fresh);
  }
  return plain;
}

std::shared_ptr<Graph> decompose(const Graph& graph, std::span<const std::string> except) {
  return decompose(graph, [&](const OpDef& op) -> Definition {
    const bool kept = std::find(except.begin(), except.end(), op.name) != except.end();
    return kept ? nullptr : op.decompose;
  });
}

} // namespace dllm::graph

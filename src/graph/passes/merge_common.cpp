// merge_common_nodes: of nodes that compute the same, one stays. A barrier is never merged.

#include "graph/clone.h"
#include "graph/op.h"
#include "graph/passes.h"

#include <cstring>
#include <string_view>
#include <unordered_map>

namespace dllm::graph {
namespace {

bool same_literal(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.byte_size())) == 0;
}

// A key that equal nodes share; unequal ones may, too.
size_t key_of(const Node& node) {
  size_t key = std::hash<const void*>{}(node.op);
  for (int32_t id : node.inputs) key = key * 1000003u + static_cast<size_t>(id) + 1;
  key ^= std::hash<std::string>{}(node.attributes.dump());
  if (node.literal.defined()) {
    const std::string_view bytes(reinterpret_cast<const char*>(node.literal.bytes()),
                                 static_cast<size_t>(node.literal.byte_size()));
    key ^= std::hash<std::string_view>{}(bytes);
  }
  return key;
}

bool same_node(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.attributes == b.attributes &&
         a.bodies == b.bodies && same_literal(a.literal, b.literal);
}

using Table = std::unordered_multimap<size_t, int32_t>;

// The earlier node of `to` that computes what `wanted` would, or -1.
int32_t find_same(const Graph& to, const Table& table, size_t key, const Node& wanted) {
  const auto [begin, end] = table.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    if (same_node(to.nodes()[static_cast<size_t>(it->second)], wanted)) return it->second;
  }
  return -1;
}

} // namespace

std::shared_ptr<Graph> merge_common_nodes(const Graph& graph) {
  BodyMemo memo;
  std::map<const Graph*, Table> tables; // one per graph that is being made
  const Replace replace = [&](Cloner& cloner, Graph& to, int32_t index,
                              std::vector<std::shared_ptr<const Graph>> bodies) {
    Node wanted = cloner.from().nodes()[static_cast<size_t>(index)];
    if (std::string_view(wanted.op->name) == "barrier")
      return copy_node(cloner, to, index, std::move(bodies));
    const std::vector<int32_t> results = wanted.outputs;
    for (int32_t& id : wanted.inputs) id = cloner.at(id).id;
    wanted.bodies = bodies;
    Table& table = tables[&to];
    const size_t key = key_of(wanted);
    const int32_t same = find_same(to, table, key, wanted);
    if (same < 0) {
      copy_node(cloner, to, index, std::move(bodies));
      table.emplace(key, static_cast<int32_t>(to.nodes().size()) - 1);
      return;
    }
    const auto& outputs = to.nodes()[static_cast<size_t>(same)].outputs;
    for (size_t i = 0; i < results.size(); ++i) cloner.map(results[i], to.value(outputs[i]));
  };
  return rewrite(graph, replace, memo);
}

} // namespace dllm::graph

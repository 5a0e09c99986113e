// Removes dead code and merges nodes that compute the same values. A barrier is never merged.
#include "graph/op.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"

#include <cstring>
#include <string_view>
#include <unordered_map>

namespace dllm::graph {

namespace {

// Returns, for every value of `graph`, whether `roots` depend on it.
std::vector<bool> needed_values(const Graph& graph, std::span<const int32_t> roots) {
  std::vector<bool> needed(static_cast<size_t>(graph.value_count()));
  for (int32_t root : roots) needed[static_cast<size_t>(root)] = true;
  const std::vector<bool> live = live_nodes(graph, roots);
  for (size_t n = 0; n < live.size(); ++n) {
    if (!live[n]) continue;
    for (int32_t id : graph.nodes()[n].inputs) needed[static_cast<size_t>(id)] = true;
  }
  return needed;
}

struct LiveScan {
  std::vector<bool> outputs; // results of the node
  std::vector<bool> inputs;  // operands of the node
};

// Returns the live operands and results of a scan. A carry is live if its final value is used or a
// live value of a step reads it.
LiveScan live_scan(const Node& node, const ops::ScanPlan& plan, const std::vector<bool>& used) {
  const Graph& body = *node.bodies[0];
  LiveScan live{used, std::vector<bool>(node.inputs.size())};
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<int32_t> roots;
    for (size_t i = 0; i < live.outputs.size(); ++i) {
      if (live.outputs[i]) roots.push_back(body.outputs()[i].value);
    }
    const std::vector<bool> needed = needed_values(body, roots);
    for (size_t i = 0; i < live.inputs.size(); ++i) {
      live.inputs[i] = needed[static_cast<size_t>(body.inputs()[i].value)];
    }
    for (size_t i = 0; i < plan.carry; ++i) {
      if (live.inputs[i] && !live.outputs[i]) live.outputs[i] = changed = true;
    }
  }
  for (size_t i = 0; i < plan.carry; ++i) live.inputs[i] = live.outputs[i];
  return live;
}

std::shared_ptr<const Graph> narrow_body(const Graph& body, const LiveScan& live) {
  auto made = std::make_shared<Graph>(body.name());
  Cloner cloner(body, *made);
  std::vector<int32_t> roots;
  for (size_t i = 0; i < live.inputs.size(); ++i) {
    const GraphInput& input = body.inputs()[i];
    if (live.inputs[i])
      cloner.map(input.value, made->input(input.name, body.type(input.value), input.is_parameter));
  }
  for (size_t i = 0; i < live.outputs.size(); ++i) {
    if (live.outputs[i]) roots.push_back(body.outputs()[i].value);
  }
  const std::vector<bool> kept = live_nodes(body, roots);
  for (size_t n = 0; n < kept.size(); ++n) {
    if (kept[n]) cloner.node(static_cast<int32_t>(n));
  }
  for (size_t i = 0; i < live.outputs.size(); ++i) {
    if (live.outputs[i]) made->output(body.outputs()[i].name, cloner.at(body.outputs()[i].value));
  }
  return remove_dead_code(*made);
}

void copy_scan(Cloner& cloner, Graph& to, const Node& node, const LiveScan& live) {
  const ops::ScanPlan plan(node.attributes);
  int64_t counts[3] = {0, 0, 0}; // carry, per_layer, consts
  std::vector<Value> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!live.inputs[i]) continue;
    inputs.push_back(cloner.at(node.inputs[i]));
    ++counts[plan.is_carry(i) ? 0 : plan.is_per_layer(i) ? 1 : 2];
  }
  Attributes attributes = node.attributes;
  attributes.set("carry", counts[0]);
  attributes.set("per_layer", counts[1]);
  attributes.set("consts", counts[2]);
  const auto made = to.add(*node.op, inputs, attributes, {narrow_body(*node.bodies[0], live)});
  size_t next = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (live.outputs[i]) cloner.map(node.outputs[i], made[next++]);
  }
}

} // namespace

std::shared_ptr<Graph> remove_dead_code(const Graph& graph) {
  // Walks backward and marks the needed values; of a scan only the live parts.
  std::vector<bool> needed(static_cast<size_t>(graph.value_count()));
  std::vector<LiveScan> scans(graph.nodes().size());
  for (const GraphOutput& output : graph.outputs())
    needed[static_cast<size_t>(output.value)] = true;
  const auto is_scan = [](const Node& node) { return std::string_view(node.op->name) == "scan"; };
  std::vector<bool> live(graph.nodes().size());
  for (size_t n = live.size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    std::vector<bool> used;
    for (int32_t id : node.outputs) {
      used.push_back(needed[static_cast<size_t>(id)]);
      live[n] = live[n] || used.back();
    }
    if (!live[n]) continue;
    if (is_scan(node)) scans[n] = live_scan(node, ops::ScanPlan(node.attributes), used);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_scan(node) || scans[n].inputs[i]) needed[static_cast<size_t>(node.inputs[i])] = true;
    }
  }

  auto made = std::make_shared<Graph>(graph.name());
  Cloner cloner(graph, *made);
  cloner.inputs();
  for (size_t n = 0; n < live.size(); ++n) {
    if (!live[n]) continue;
    const Node& node = graph.nodes()[n];
    if (is_scan(node)) {
      copy_scan(cloner, *made, node, scans[n]);
      continue;
    }
    std::vector<std::shared_ptr<const Graph>> bodies;
    for (const auto& body : node.bodies) bodies.push_back(remove_dead_code(*body));
    copy_node(cloner, *made, static_cast<int32_t>(n), std::move(bodies));
  }
  cloner.outputs();
  return made;
}

namespace {

bool same_literal(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.byte_size())) == 0;
}

// Returns a hash of a node. Equal nodes have equal hashes.
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

// Returns the earlier node of `to` that equals `wanted`, or -1.
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
  std::map<const Graph*, Table> tables; // by graph that is being built
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

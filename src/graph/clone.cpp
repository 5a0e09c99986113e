// Copies graphs, and decomposes them: in the copy every fused operation is replaced by its
// definition.
#include "graph/passes.h"

#include "base/error.h"
#include "graph/op.h"

#include <algorithm>

namespace dllm::graph {

void Cloner::map(int32_t from_value, Value to_value) {
  if (values_.size() <= static_cast<size_t>(from_value))
    values_.resize(static_cast<size_t>(from_.value_count()));
  values_[static_cast<size_t>(from_value)] = to_value;
}

const Value* Cloner::find(int32_t from_value) const {
  const auto index = static_cast<size_t>(from_value);
  return index < values_.size() && values_[index].defined() ? &values_[index] : nullptr;
}

Value Cloner::at(int32_t from_value) const {
  const Value* found = find(from_value);
  if (found == nullptr)
    fail(Code::internal, "value %{} of graph {} was not copied", from_value, from_.name());
  return *found;
}

std::vector<Value> Cloner::at(std::span<const int32_t> from_values) const {
  std::vector<Value> values;
  for (int32_t id : from_values) values.push_back(at(id));
  return values;
}

void Cloner::inputs() {
  for (const GraphInput& input : from_.inputs()) {
    map(input.value, to_.input(input.name, from_.type(input.value), input.is_parameter));
  }
}

std::vector<Value> Cloner::node(int32_t index) {
  const Node& node = from_.nodes()[static_cast<size_t>(index)];
  std::vector<Value> made =
      to_.add(*node.op, at(node.inputs), node.attributes, node.bodies, node.literal);
  for (size_t i = 0; i < made.size(); ++i) map(node.outputs[i], made[i]);
  return made;
}

void Cloner::outputs() {
  for (const GraphOutput& output : from_.outputs()) {
    const std::string donated =
        output.donated_input < 0 ? ""
                                 : from_.inputs()[static_cast<size_t>(output.donated_input)].name;
    to_.output(output.name, at(output.value), donated, output.is_brief);
  }
}

std::vector<bool> live_nodes(const Graph& graph, std::span<const int32_t> roots) {
  std::vector<bool> live(graph.nodes().size());
  const auto mark = [&](int32_t value) {
    const int32_t node = graph.producer(value);
    if (node >= 0) live[static_cast<size_t>(node)] = true;
  };
  for (int32_t root : roots) mark(root);
  for (size_t i = live.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (int32_t id : graph.nodes()[i].inputs) mark(id);
  }
  return live;
}

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

std::shared_ptr<Graph> decompose(const Graph& graph, const DefinitionOf& definition_of) {
  bool again = false;
  const Replace replace = [&](Cloner& cloner, Graph& to, int32_t index,
                              std::vector<std::shared_ptr<const Graph>> bodies) {
    const Node& node = cloner.from().nodes()[static_cast<size_t>(index)];
    const Definition definition = definition_of(cloner.from(), node);
    if (definition == nullptr) return copy_node(cloner, to, index, std::move(bodies));
    const size_t before = to.nodes().size();
    const std::vector<Value> made = definition(to, node, cloner.at(node.inputs));
    for (size_t i = 0; i < made.size(); ++i) cloner.map(node.outputs[i], made[i]);
    // A definition may contain fused operations.
    for (size_t n = before; n < to.nodes().size(); ++n)
      again = again || definition_of(to, to.nodes()[n]) != nullptr;
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
  return decompose(graph, [&](const Graph&, const Node& node) -> Definition {
    const bool kept = std::find(except.begin(), except.end(), node.op->name) != except.end();
    return kept ? nullptr : node.op->decompose;
  });
}

} // namespace dllm::graph

// join_padded_parts: the sum of neighbouring parts of an array, each padded with zeros to all of it, is their concatenation. The
// gradients of the slices that cut queries, keys and values out of one product arrive as such sums: three arrays of the whole
// size to fill and two to add, where a concatenation writes one.

#include "graph/op.h"
#include "graph/ops.h"
#include "graph/passes.h"

#include <optional>
#include <string_view>

namespace dllm::graph {
namespace {

const Node* producer_named(const Graph& graph, int32_t value, std::string_view op) {
  const int32_t found = graph.producer(value);
  if (found < 0) return nullptr;
  const Node& node = graph.nodes()[static_cast<size_t>(found)];
  return node.op->name == op ? &node : nullptr;
}

bool is_plus_zero(const Graph& graph, int32_t value) {
  const Node* constant = producer_named(graph, value, "constant");
  if (constant == nullptr || !constant->literal.defined()) return false;
  const std::byte* bytes = constant->literal.bytes();
  for (int64_t i = 0; i < constant->literal.byte_size(); ++i) {
    if (bytes[i] != std::byte{0}) return false;
  }
  return true;
}

// A part of an array along one axis: `low` zeros lie before it, `high` behind.
struct PaddedPart {
  int32_t value, fill;
  size_t axis;
  int64_t low, high;
};

std::optional<PaddedPart> padded_part(const Graph& graph, Value sum_operand) {
  const Node* pad = producer_named(graph, sum_operand.id, "pad");
  if (pad == nullptr || !is_plus_zero(graph, pad->inputs[1])) return std::nullopt;
  const auto &low = pad->attributes.list("low"), &high = pad->attributes.list("high");
  std::optional<PaddedPart> part;
  for (size_t axis = 0; axis < low.size(); ++axis) {
    if (low[axis] == 0 && high[axis] == 0) continue;
    if (part) return std::nullopt;
    part = PaddedPart{pad->inputs[0], pad->inputs[1], axis, low[axis], high[axis]};
  }
  return part;
}

void add_parts(Graph& graph, int32_t value, int64_t axis, std::vector<Value>& parts) {
  const Node* concat = producer_named(graph, value, "concat");
  if (concat == nullptr || concat->attributes.integer("axis") != axis) {
    parts.push_back(graph.value(value));
    return;
  }
  for (int32_t part : concat->inputs) parts.push_back(graph.value(part));
}

// x + y as a concatenation, padded where the two do not fill the array; undefined where they are no neighbours.
std::optional<Value> joined(Graph& graph, Value x, Value y) {
  auto first = padded_part(graph, x), second = padded_part(graph, y);
  if (!first || !second || first->axis != second->axis || x.shape() != y.shape())
    return std::nullopt;
  if (first->low > second->low) std::swap(first, second);
  const Shape whole = x.shape();
  const int64_t size = whole.dim(static_cast<int64_t>(first->axis));
  if (size - first->high != second->low) return std::nullopt;
  const auto axis = static_cast<int64_t>(first->axis);
  std::vector<Value> parts;
  add_parts(graph, first->value, axis, parts);
  add_parts(graph, second->value, axis, parts);
  const Value all = concat(parts, axis);
  if (first->low == 0 && second->high == 0) return all;
  std::vector<int64_t> low(whole.dims().size(), 0), high = low;
  low[first->axis] = first->low;
  high[first->axis] = second->high;
  return pad(all, low, high, graph.value(first->fill));
}

} // namespace

std::shared_ptr<Graph> join_padded_parts(const Graph& graph) {
  BodyMemo memo;
  const Replace replace = [](Cloner& cloner, Graph& to, int32_t index,
                             std::vector<std::shared_ptr<const Graph>> bodies) {
    const Node& node = cloner.from().nodes()[static_cast<size_t>(index)];
    if (std::string_view(node.op->name) == "add") {
      const Value x = cloner.at(node.inputs[0]), y = cloner.at(node.inputs[1]);
      if (const auto made = joined(to, x, y)) return cloner.map(node.outputs[0], *made);
    }
    copy_node(cloner, to, index, std::move(bodies));
  };
  return rewrite(graph, replace, memo);
}

} // namespace dllm::graph

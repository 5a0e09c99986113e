// count_flops: counts the floating-point operations of products and attention in one run. Other
// operations are negligible.

#include "graph/op.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"

#include <string_view>

namespace dllm::graph {
namespace {

double count_of(const Graph& graph, int32_t id) {
  return static_cast<double>(graph.type(id).shape.count());
}

double extent(const Graph& graph, int32_t id, int64_t axis) {
  return static_cast<double>(graph.type(id).numbers().dim(axis));
}

// Returns two operations per pair of query and key, for q (batch, queries, heads, dim) and v
// (batch, keys, kv_heads, vdim). A causal or block_causal mask with as many keys as queries needs
// half of them.
double attention_pair(const Graph& graph, const Node& node) {
  const Shape& q = graph.type(node.inputs[0]).shape;
  const int32_t v = node.inputs[2];
  const double pairs = static_cast<double>(q.dim(0) * q.dim(1) * q.dim(2)) * extent(graph, v, 1);
  const bool half = node.attributes.text("kinds").find("causal") != std::string::npos &&
                    q.dim(1) == graph.type(v).shape.dim(1);
  return (half ? 0.5 : 1.0) * 2 * pairs;
}

} // namespace

double count_flops(const Graph& graph, const Node& node) {
  const std::string_view name = node.op->name;
  const auto count = [&](size_t i) { return count_of(graph, node.inputs[i]); };
  const auto last = [&](size_t i, int64_t axis) { return extent(graph, node.inputs[i], axis); };
  if (name == "linear" || name == "linear_input_grad")
    return 2 * count(0) * (name == "linear" ? last(1, 0) : last(1, 1));
  if (name == "linear_weight_grad") return 2 * count(0) * last(1, -1);
  if (name == "linear_by_row") return 2 * count(0) * last(2, 0);
  if (name == "expert_linear") return 2 * count(0) * last(1, 1) * last(2, 1);
  if (name == "expert_linear_input_grad") return 2 * count(0) * last(2, 2);
  if (name == "expert_linear_weight_grad") return 2 * count(0) * last(1, 1);
  if (name == "dot") return 2 * count(0) * last(1, -1);
  if (name == "linear_cross_entropy" || name == "token_statistics")
    return 2 * count(0) * last(1, 0);
  if (name == "linear_cross_entropy_grad") {
    // The logits again, dx, and dweight if it is wanted.
    return 2 * count(0) * last(1, 0) * (node.attributes.flag("want_weight") ? 3 : 2);
  }
  if (name == "linear_cross_entropy_with_grad") // logits once, dx, dweight
    return 2 * count(0) * last(1, 0) * (node.attributes.flag("want_weight") ? 3 : 2);
  if (name == "attention") return attention_pair(graph, node) * (last(0, 3) + last(2, 3));
  if (name == "attention_grad")
    return attention_pair(graph, node) * (3 * last(0, 3) + 2 * last(2, 3));
  if (name.starts_with("ring_attention")) { // the keys of every rank
    const double dims =
        name == "ring_attention" ? last(0, 3) + last(2, 3) : 3 * last(0, 3) + 2 * last(2, 3);
    return static_cast<double>(node.attributes.integer("ranks")) * attention_pair(graph, node) *
           dims;
  }
  return 0;
}

double count_flops(const Graph& graph) {
  double total = 0;
  for (const Node& node : graph.nodes()) {
    double times = 1;
    if (std::string_view(node.op->name) == "scan") {
      const ops::ScanPlan plan(node.attributes);
      times = static_cast<double>(plan.end - plan.begin);
    }
    total += count_flops(graph, node);
    for (const auto& body : node.bodies) total += times * count_flops(*body);
  }
  return total;
}

} // namespace dllm::graph

// count_exchanges: counts the bytes that the collective operations of a graph send, as a ring of
// ranks sends them (Thakur et al. 2005, Optimization of Collective Communication Operations in
// MPICH). With n bytes per rank and m ranks, a rank sends 2 n (m - 1) / m bytes in an all-reduce
// and n (m - 1) / m in a reduce-scatter.

#include "graph/op.h"
#include "graph/ops/scan.h"
#include "graph/passes.h"

#include <string_view>

namespace dllm::graph {
namespace {

AxisSet exchanged_axes(const Node& node) {
  const std::string_view name = node.op->name;
  AxisSet axes;
  if (name == "all_reduce" || name == "all_reduce_max") {
    for (const int64_t axis : node.attributes.list("axes"))
      axes = axes.with(AxisSet(static_cast<Axis>(axis)));
  } else if (name == "all_gather" || name == "reduce_scatter" || name == "all_to_all" ||
             name == "permute" || name.starts_with("ring_attention")) {
    axes = AxisSet(static_cast<Axis>(node.attributes.integer("axis")));
  }
  return axes;
}

// Returns the bytes that a rank sends to its group, as a multiple of its own bytes.
double sent_share(std::string_view name, double ranks) {
  const double others = ranks - 1;
  if (name == "all_gather") return others;
  if (name == "all_reduce" || name == "all_reduce_max") return 2 * others / ranks;
  return name == "permute" ? 1 : others / ranks;
}

// Returns the exchange of ring attention. Keys and values make ranks - 1 hops; in the gradient
// their gradients make `ranks` hops in addition.
Exchange of_ring(const Graph& graph, const Node& node, double ranks) {
  const double hops = node.outputs.size() == 2 ? ranks - 1 : 2 * ranks - 1;
  double bytes = 0;
  for (const size_t i : {size_t{1}, size_t{2}})
    bytes += static_cast<double>(graph.type(node.inputs[i]).shape.count() * dtype_size(DType::f32));
  return {2 * hops, hops * bytes};
}

void add_exchanges(const Graph& graph, const Mesh& mesh, double times,
                   std::map<std::string, Exchange>& made) {
  for (const Node& node : graph.nodes()) {
    const std::string_view name = node.op->name;
    const auto ranks = static_cast<double>(mesh.size(exchanged_axes(node)));
    if (ranks > 1 && name.starts_with("ring_attention")) {
      const Exchange ring = of_ring(graph, node, ranks);
      made["permute"].calls += times * ring.calls;
      made["permute"].bytes += times * ring.bytes;
    } else if (ranks > 1) {
      const ValueType& own = graph.type(node.inputs[0]);
      Exchange& exchange = made[std::string(name)];
      exchange.calls += times;
      exchange.bytes += times * sent_share(name, ranks) *
                        static_cast<double>(own.shape.count() * dtype_size(own.dtype));
    }
    double steps = times;
    if (name == "scan") {
      const ops::ScanPlan plan(node.attributes);
      steps *= static_cast<double>(plan.end - plan.begin);
    }
    for (const auto& body : node.bodies) add_exchanges(*body, mesh, steps, made);
  }
}

} // namespace

std::map<std::string, Exchange> count_exchanges(const Graph& graph, const Mesh& mesh) {
  std::map<std::string, Exchange> made;
  add_exchanges(graph, mesh, 1, made);
  return made;
}

} // namespace dllm::graph

#include "model/network/expert_rows.h"

#include "graph/ops.h"

namespace dllm::model {
namespace {

using graph::Axis;
using graph::AxisSet;

bool has_some_experts(const Linear& matrices) {
  return matrices.partition.cuts() && matrices.partition.kind == PartitionKind::experts;
}

// Returns true when each rank has its own rows, as in training. In decoding all ranks have the same
// rows.
bool rows_are_cut(const ExpertRows& own) {
  return own.rows.type().axes.has(Axis::expert);
}

} // namespace

ExpertRows send_to_experts(const Linear& matrices, const ExpertRows& own) {
  if (!has_some_experts(matrices)) return own;
  const int64_t ranks = matrices.partition.ranks;
  // One exchange serves all products, so that their gradients are added before the one sum over the
  // ranks.
  const auto sent = [&](graph::Value x) {
    return rows_are_cut(own) ? graph::all_gather(x, Axis::expert, 0, ranks)
                             : graph::vary(x, AxisSet(Axis::expert));
  };
  ExpertRows made{sent(own.rows), sent(own.experts), sent(own.shares)};
  graph::Graph& graph = *own.rows.graph;
  const auto count = static_cast<int32_t>(matrices.weight.dim(0));
  const graph::Value first =
      graph::multiply(graph::axis_index(graph, Axis::expert), graph::scalar_i32(graph, count));
  made.experts = graph::subtract(made.experts, first);
  return made;
}

graph::Value return_from_experts(const Linear& matrices, graph::Value mixed,
                                 const ExpertRows& own) {
  if (!has_some_experts(matrices)) return mixed;
  return rows_are_cut(own) ? graph::reduce_scatter(mixed, Axis::expert, 0, matrices.partition.ranks)
                           : graph::all_reduce(mixed, AxisSet(Axis::expert));
}

} // namespace dllm::model

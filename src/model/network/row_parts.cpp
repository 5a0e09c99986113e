#include "model/network/row_parts.h"

#include "base/error.h"
#include "graph/mask.h"

#include <algorithm>

namespace dllm::model {
namespace {

using graph::Axis;

// Returns the mask of this rank's queries over all keys, from the mask of whole rows.
graph::Mask of_own_queries(const graph::Mask& mask, int64_t batch, int64_t queries, int64_t ranks,
                           graph::Graph& graph) {
  if (mask.query_start.defined())
    fail(Code::internal, "queries that begin after their keys cannot be cut over axis sequence");
  graph::Mask own = mask;
  const graph::Value first =
      graph::multiply(graph::axis_index(graph, Axis::sequence),
                      graph::scalar_i32(graph, static_cast<int32_t>(queries)));
  own.query_start = graph::broadcast(first, {batch});
  for (graph::MaskTerm& term : own.terms) {
    const bool by_query = term.kind == graph::MaskKind::segments ||
                          term.kind == graph::MaskKind::key_limit ||
                          term.kind == graph::MaskKind::dense;
    if (by_query) term.params[0] = own_positions(term.params[0], ranks); // (batch, queries, ..)
  }
  return own;
}

} // namespace

graph::Value own_positions(graph::Value x, int64_t ranks) {
  if (ranks == 1 || !x.defined()) return x;
  if (x.dim(1) % ranks != 0) {
    fail_with_hint("choose a length that is a multiple of it", Code::invalid_argument,
                   "rows of {} positions do not divide by the {} ranks of axis {}", x.dim(1), ranks,
                   graph::axis_name(Axis::sequence));
  }
  return graph::own_part(x, Axis::sequence, 1, ranks);
}

graph::Value all_positions(graph::Value own, int64_t ranks) {
  return ranks == 1 ? own : graph::all_gather(own, Axis::sequence, 1, ranks, true);
}

// Returns true when keys can be passed from rank to rank, because the mask over one part does not
// depend on other parts.
bool may_pass_on(const graph::Mask& mask, const graph::AttentionOptions& options) {
  return !options.empty_average && std::ranges::none_of(mask.terms, [](const auto& term) {
    return term.kind == graph::MaskKind::two_stream || term.kind == graph::MaskKind::dense;
  });
}

graph::Value row_attention(graph::Value q, graph::Value k, graph::Value v, const graph::Mask& mask,
                           const graph::AttentionOptions& options, int64_t ranks) {
  if (ranks == 1) return graph::attention(q, k, v, mask, options);
  const bool heads_divide = q.dim(2) % ranks == 0 && k.dim(2) % ranks == 0;
  if (heads_divide) { // some heads of whole rows
    const auto rows = [&](graph::Value x) {
      return graph::all_to_all(x, Axis::sequence, 2, 1, ranks);
    };
    const graph::Value mixed = graph::attention(rows(q), rows(k), rows(v), mask, options);
    return graph::all_to_all(mixed, Axis::sequence, 1, 2, ranks);
  }
  const graph::Mask own = of_own_queries(mask, q.dim(0), q.dim(1), ranks, *q.graph);
  if (may_pass_on(own, options))
    return graph::ring_attention(q, k, v, own, options, Axis::sequence, ranks);
  const auto all = [&](graph::Value x) { return graph::all_gather(x, Axis::sequence, 1, ranks); };
  return graph::attention(q, all(k), all(v), own, options);
}

graph::Value dealt_rows(graph::Value x, int64_t ranks) {
  if (ranks == 1) return x;
  const int64_t count = x.dim(0), each = (count + ranks - 1) / ranks;
  graph::Graph& graph = *x.graph;
  const graph::Value zero =
      x.dtype() == DType::i32 ? graph::scalar_i32(graph, 0) : graph::scalar(graph, 0.0f);
  if (const int64_t missing = each * ranks - count; missing > 0)
    x = graph::pad(x, {0}, {missing}, zero);
  return graph::reshape(graph::own_part(graph::reshape(x, {each, ranks}), Axis::sequence, 1, ranks),
                        {each});
}

graph::Value dealt_count(graph::Value count, int64_t ranks) {
  if (ranks == 1) return count;
  graph::Graph& graph = *count.graph;
  const graph::Value of = graph::scalar_i32(graph, static_cast<int32_t>(ranks));
  const graph::Value behind =
      graph::subtract(graph::subtract(of, graph::scalar_i32(graph, 1)),
                      graph::axis_index(graph, Axis::sequence)); // 0 on the last rank
  return graph::divide(graph::add(count, behind), of);
}

} // namespace dllm::model

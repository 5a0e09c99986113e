#include "noise/loss/path_loss.h"

#include "noise/rows/head_rows.h"

#include <span>
#include <vector>

namespace dllm::noise {
namespace {

// Returns rows 0, 1, 1, 2, 2, 3, ...: each row and the next one. After the last row comes the last
// row again.
graph::Value with_next(graph::Value rows) {
  const int64_t count = rows.dim(0), width = rows.dim(1);
  const graph::Value next = graph::concat(
      {graph::slice_axis(rows, 0, 1, count), graph::slice_axis(rows, 0, count - 1, count)}, 0);
  const graph::Value both = graph::concat(
      {graph::reshape(rows, {count, 1, width}), graph::reshape(next, {count, 1, width})}, 1);
  return graph::reshape(both, {2 * count, width});
}

// Returns sum_k p_r(k) p_{r+1}(k), f32(rows).
graph::Value agreement(const model::Head& head, graph::Value hidden) {
  const HeadOfRows heads[] = {{model::whole(head, hidden), with_next(hidden)}};
  const auto body = [](std::span<const graph::Value> logits, std::span<const graph::Value>) {
    const int64_t pairs = logits[0].dim(0) / 2, vocab = logits[0].dim(1);
    const graph::Value p = graph::softmax(logits[0], 1);
    const graph::Value two = graph::reshape(p, {pairs, 2, vocab});
    const graph::Value product =
        graph::multiply(graph::slice_axis(two, 1, 0, 1), graph::slice_axis(two, 1, 1, 2));
    return std::vector{graph::reshape(graph::sum(product, {2}), {pairs})};
  };
  return over_head_rows("row_pairs", heads, {}, body)[0];
}

// Returns two f32(rows): the margins of the two largest logits, summed over both rows of a pair;
// and 1 where their likeliest tokens are equal.
std::vector<graph::Value> collisions(const model::Head& head, graph::Value hidden) {
  const HeadOfRows heads[] = {{model::whole(head, hidden), with_next(hidden)}};
  const auto body = [](std::span<const graph::Value> heads_logits, std::span<const graph::Value>) {
    const graph::Value logits = heads_logits[0];
    graph::Graph& graph = *logits.graph;
    const int64_t rows = logits.dim(0), vocab = logits.dim(1), pairs = rows / 2;
    const graph::Value top = graph::argmax(logits, 1); // i32(rows)
    const graph::Value is_top = graph::equal(
        graph::broadcast(graph::reshape(top, {rows, 1}), {rows, vocab}),
        graph::broadcast(graph::iota(graph, {1, vocab}, DType::i32, 1), {rows, vocab}));
    const graph::Value others =
        graph::select(is_top, graph::full(graph, {rows, vocab}, -1e30f), logits);
    const graph::Value margin = graph::subtract(graph::max(logits, {1}), graph::max(others, {1}));
    const graph::Value two = graph::reshape(top, {pairs, 2});
    const graph::Value meet =
        graph::equal(graph::slice_axis(two, 1, 0, 1), graph::slice_axis(two, 1, 1, 2));
    return std::vector{graph::sum(graph::reshape(margin, {pairs, 2}), {1}),
                       graph::convert(graph::reshape(meet, {pairs}), DType::f32)};
  };
  return over_head_rows("row_collisions", heads, {}, body);
}

graph::Value hard_repetition(const model::Head& head, const PathRows& rows) {
  graph::Graph& graph = *rows.hidden.graph;
  const std::vector<graph::Value> found = collisions(head, rows.hidden);
  const int64_t count = rows.pairs.dim(0);
  const graph::Value wanted =
      graph::convert(graph::greater(rows.pairs, graph::full(graph, {count}, 0.0f)), DType::f32);
  const graph::Value meet = graph::multiply(graph::stop_gradient(found[1]), wanted);
  // The number of pairs that collide in each row of the batch, at least 1.
  const graph::Value counts =
      graph::scatter_add(graph::full(graph, {rows.batch}, 0.0f), rows.owners, meet);
  const graph::Value among =
      graph::maximum(graph::take(counts, rows.owners), graph::full(graph, {count}, 1.0f));
  const graph::Value half = graph::scalar(graph, 0.5f);
  const graph::Value margins = graph::multiply(graph::multiply(found[0], half), meet);
  return graph::sum(graph::multiply(rows.pairs, graph::divide(margins, among)), {0});
}

} // namespace

PathLoss path_loss(const model::Head& head, const PathRows& rows) {
  PathLoss made;
  made.nll = model::cross_entropy(head, rows.hidden, rows.targets, rows.count);
  const graph::Value weighted = graph::multiply(made.nll, rows.weights);
  const graph::Value found = graph::stop_gradient(graph::exp(graph::negate(made.nll)));
  made.masked = graph::sum(weighted, {0});
  made.path = graph::sum(graph::multiply(weighted, found), {0});
  if (rows.pairs.defined() && rows.owners.defined())
    made.repetition = hard_repetition(head, rows);
  else if (rows.pairs.defined())
    made.repetition = graph::sum(graph::multiply(agreement(head, rows.hidden), rows.pairs), {0});
  return made;
}

} // namespace dllm::noise

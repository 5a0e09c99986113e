#include "noise/path_loss.h"

#include "noise/head_rows.h"

#include <span>
#include <vector>

namespace dllm::noise {
namespace {

// Rows 0, 1, 1, 2, 2, 3, ...: each row and the next one; the last row stands in for the one behind it.
graph::Value with_next(graph::Value rows) {
  const int64_t count = rows.dim(0), width = rows.dim(1);
  const graph::Value next = graph::concat(
      {graph::slice_axis(rows, 0, 1, count), graph::slice_axis(rows, 0, count - 1, count)}, 0);
  const graph::Value both = graph::concat(
      {graph::reshape(rows, {count, 1, width}), graph::reshape(next, {count, 1, width})}, 1);
  return graph::reshape(both, {2 * count, width});
}

// sum_k p_r(k) p_{r+1}(k), f32(rows).
graph::Value agreement(const model::Head& head, graph::Value hidden) {
  const graph::Value arrays[] = {with_next(hidden)};
  const auto body = [](graph::Value logits, std::span<const graph::Value>) {
    const int64_t pairs = logits.dim(0) / 2, vocab = logits.dim(1);
    const graph::Value p = graph::softmax(logits, 1);
    const graph::Value two = graph::reshape(p, {pairs, 2, vocab});
    const graph::Value product =
        graph::multiply(graph::slice_axis(two, 1, 0, 1), graph::slice_axis(two, 1, 1, 2));
    return std::vector{graph::reshape(graph::sum(product, {2}), {pairs})};
  };
  return over_head_rows("row_pairs", model::whole(head, hidden), arrays, -1, body)[0];
}

} // namespace

PathLoss path_loss(const model::Head& head, const PathRows& rows) {
  PathLoss made;
  made.nll = model::cross_entropy(head, rows.hidden, rows.targets, rows.count);
  const graph::Value weighted = graph::multiply(made.nll, rows.weights);
  const graph::Value found = graph::stop_gradient(graph::exp(graph::negate(made.nll)));
  made.masked = graph::sum(weighted, {0});
  made.path = graph::sum(graph::multiply(weighted, found), {0});
  if (rows.pairs.defined())
    made.repetition = graph::sum(graph::multiply(agreement(head, rows.hidden), rows.pairs), {0});
  return made;
}

} // namespace dllm::noise

// linear_cross_entropy: the vocabulary streams by in parts, each row keeps its running maximum, sum
// and the logit of its target.

#include "graph/ops/build.h"
#include "pjrt/lower/loss_rows.h"
#include "pjrt/lower/lowerings.h"

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

struct RowLoss {
  Value nll, lse; // f32(rows)
};

// x (rows, in), targets i32(rows), counts u8(rows)
RowLoss tile_loss(const Head& head, Value x, Value targets, Value counts) {
  graph::Graph& graph = *x.graph;
  const Shape rows{x.dim(0)};
  const VocabularyStep step = [&](const VocabularyPart& part, const std::vector<Value>& state) {
    const Value logits = part.head.logits(part.outside[0]);
    const Value top = maximum(state[0], max(logits, {1}));
    const Value weights = sum(exp(subtract(logits, column(top))), {1});
    const Value total = add(multiply(state[1], exp(subtract(state[0], top))), weights);
    const Value own = target_mask(part.outside[1], part.begin, logits.dim(1));
    const Value hit = sum(select(own, logits, full_like(logits, 0)), {1});
    return std::vector<Value>{top, total, add(state[2], hit)};
  };
  const Value lowest = graph::full(graph, rows, -1e30f), none = zeros(graph, rows);
  const auto made = over_vocabulary(head, x.dim(0), {lowest, none, none}, {x, targets}, step);
  const Value lse = add(made[0], log(made[1]));
  return {select(counts, subtract(lse, made[2]), none), select(counts, lse, none)};
}

} // namespace

Results lower_linear_cross_entropy(graph::Graph& graph, const graph::Node& node, Operands inputs) {
  const LossOperands at = loss_operands(node.attributes, false);
  const Head head(at.head, inputs);
  const Value x = inputs[0], targets = inputs[static_cast<size_t>(at.targets)];
  const Value count = at.count >= 0 ? inputs[static_cast<size_t>(at.count)] : Value{};
  const int64_t capacity = x.dim(0);
  const RowTiles tiles = tile_rows(capacity, kLossRows);
  if (tiles.tiles == 1) {
    const Value first = graph::scalar_i32(graph, 0);
    const RowLoss made =
        tile_loss(head, x, targets, rows_with_target(targets, first, count, head.vocab()));
    return {made.nll, made.lse};
  }
  CountedLoop loop("tile of loss rows", axes_of(inputs),
                   tiles_in_use(graph, tiles, count, capacity));
  const Value none = zeros(graph, Shape{tiles.padded()});
  const Value nll = loop.state(none), lse = loop.state(none);
  const Value all_x = loop.outside(pad_rows(x, tiles.padded(), 0)),
              all_targets = loop.outside(pad_rows(targets, tiles.padded(), -1));
  const Value in_use = loop.outside(count);
  const Head inner = head.inside(loop);
  const Value begin = times(loop.step(), tiles.rows);
  const Value own = rows_at(all_targets, begin, tiles.rows);
  const RowLoss made = tile_loss(inner, rows_at(all_x, begin, tiles.rows), own,
                                 rows_with_target(own, begin, in_use, head.vocab()));
  const auto done = loop.run({put_rows(nll, made.nll, begin), put_rows(lse, made.lse, begin)});
  return {slice_axis(done[0], 0, 0, capacity), slice_axis(done[1], 0, 0, capacity)};
}

} // namespace dllm::pjrt

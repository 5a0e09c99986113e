// Lowers the cross entropy of a head, and its gradient.

#include "graph/ops/build.h"
#include "pjrt/lower/head.h"
#include "pjrt/lower/lower.h"

namespace dllm::pjrt {

// linear_cross_entropy reads the vocabulary in parts. For each row it keeps the running maximum,
// the sum, and the logit of the target.

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

// linear_cross_entropy_grad computes the logits of a tile of rows again, in parts of the
// vocabulary. Every part adds to dx and to its own rows of dweight.

using graph::Value;
using namespace graph::ops;

namespace {

struct TileRows {
  Value x, targets, lse, dnll; // (rows, in), (rows)...
  Value counts;                // u8(rows)
};

// Returns the gradient of the logits before the cap: (softmax - onehot) dnll (1 - (logit /
// softcap)^2).
Value logits_grad(const VocabularyPart& part, const TileRows& rows) {
  const Value logits = part.head.logits(rows.x), used = column(rows.counts);
  const Value none = full_like(logits, 0);
  const Value p = exp(select(used, subtract(logits, column(rows.lse)), none));
  const Value own = convert(target_mask(rows.targets, part.begin, logits.dim(1)), DType::f32);
  Value d = select(used, multiply(subtract(p, own), column(rows.dnll)), none);
  if (part.head.softcap > 0) {
    const Value t = divide(logits, full_like(logits, part.head.softcap));
    d = multiply(d, subtract(full_like(t, 1), multiply(t, t)));
  }
  return d;
}

Value add_rows(Value sums, Value rows, Value begin) {
  return put_rows(sums, add(rows_at(sums, begin, rows.dim(0)), rows), begin);
}

// Adds the gradients of a tile to `sums`, which are dweight and dbias as far as wanted. Returns dx
// and the new sums.
std::vector<Value> tile_grad(const Head& head, const TileRows& rows, const std::vector<Value>& sums,
                             bool want_weight, bool want_bias) {
  std::vector<Value> state{zeros(*rows.x.graph, rows.x.shape())};
  state.insert(state.end(), sums.begin(), sums.end());
  const VocabularyStep step = [&](const VocabularyPart& part, const std::vector<Value>& so_far) {
    const auto& in = part.outside;
    const TileRows own{in[0], in[1], in[2], in[3], in[4]};
    const Value d = logits_grad(part, own);
    size_t next = 0;
    std::vector<Value> made{add(so_far[next++], part.head.input_grad(d))};
    if (want_weight)
      made.push_back(add_rows(so_far[next++], dot(transpose(d, {1, 0}), own.x), part.begin));
    if (want_bias) made.push_back(add_rows(so_far[next++], sum(d, {0}), part.begin));
    return made;
  };
  return over_vocabulary(head, rows.x.dim(0), state,
                         {rows.x, rows.targets, rows.lse, rows.dnll, rows.counts}, step);
}

} // namespace

Results lower_linear_cross_entropy_grad(graph::Graph& graph, const graph::Node& node,
                                        Operands inputs) {
  const LossOperands at = loss_operands(node.attributes, true);
  const Head head(at.head, inputs);
  const auto operand = [&](int index) {
    return index >= 0 ? inputs[static_cast<size_t>(index)] : Value{};
  };
  const bool want_weight = node.attributes.flag("want_weight"),
             want_bias = node.attributes.flag("want_bias");
  const Value x = inputs[0], count = operand(at.count);
  std::vector<Value> sums;
  if (want_weight) sums.push_back(zeros(graph, head.weight.shape()));
  if (want_bias) sums.push_back(zeros(graph, Shape{head.vocab()}));
  const RowTiles tiles = tile_rows(x.dim(0), kLossRows);
  if (tiles.tiles == 1) {
    const Value targets = operand(at.targets), first = graph::scalar_i32(graph, 0);
    const Value counts = rows_with_target(targets, first, count, head.vocab());
    return tile_grad(head, {x, targets, operand(at.lse), operand(at.dnll), counts}, sums,
                     want_weight, want_bias);
  }
  CountedLoop loop("tile of loss gradient rows", axes_of(inputs),
                   tiles_in_use(graph, tiles, count, x.dim(0)));
  const Value dx = loop.state(zeros(graph, Shape{tiles.padded(), x.dim(1)}));
  std::vector<Value> inner_sums;
  for (Value sum : sums) inner_sums.push_back(loop.state(sum));
  const Value begin = times(loop.step(), tiles.rows);
  const auto tile_of = [&](Value rows, double fill) {
    return rows_at(loop.outside(pad_rows(rows, tiles.padded(), fill)), begin, tiles.rows);
  };
  TileRows rows{tile_of(x, 0),
                tile_of(operand(at.targets), -1),
                tile_of(operand(at.lse), 0),
                tile_of(operand(at.dnll), 0),
                {}};
  rows.counts = rows_with_target(rows.targets, begin, loop.outside(count), head.vocab());
  std::vector<Value> next = tile_grad(head.inside(loop), rows, inner_sums, want_weight, want_bias);
  next[0] = put_rows(dx, next[0], begin);
  std::vector<Value> done = loop.run(next);
  done[0] = slice_axis(done[0], 0, 0, x.dim(0));
  return done;
}

} // namespace dllm::pjrt

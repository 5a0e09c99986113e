// expert_linear and its two gradients: a loop over tiles of pairs that share an expert. The matrix
// of the expert is cut out of the stack and widened right at the product.

#include "graph/ops/build.h"
#include "pjrt/lower/expert_groups.h"
#include "pjrt/lower/lowerings.h"

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

// Matrix (out, in) of one expert out of (experts, out, in); in the stored form.
Value matrix_of(Value stack, Value expert) {
  return reshape(rows_at(stack, expert, 1), stack.shape().without(0));
}

Value pair_row(Value pair, const ExpertGroups& groups) {
  return divide(pair, graph::scalar_i32(*pair.graph, static_cast<int32_t>(groups.choices)));
}

} // namespace

Results lower_expert_linear(graph::Graph& graph, const graph::Node& node, Operands inputs) {
  const Value x = inputs[0], experts = inputs[1], weight = inputs[2];
  const Shape pairs{experts.dim(0), experts.dim(1), weight.dim(1)};
  if (experts.shape().count() == 0) return {zeros(graph, pairs)};
  const ExpertGroups groups(experts, weight.dim(0));
  CountedLoop loop("tile of an expert", axes_of(inputs), groups.tiles);
  const Value tiled =
      loop.state(zeros(graph, Shape{groups.most_tiles * groups.tile, weight.dim(1)}));
  const ExpertTile tile = tile_at(loop, groups);
  const Value rows = take(loop.outside(x), pair_row(tile.pair, groups));
  const Value matrix = widen_weight(matrix_of(loop.outside(weight), tile.expert), {});
  Value y = dot(rows, transpose(matrix, {1, 0}));
  if (node.attributes.flag("has_scale"))
    y = multiply(y, matrix_of(loop.outside(inputs[3]), tile.expert));
  const auto done = loop.run({put_rows(tiled, y, times(loop.step(), groups.tile))});
  return {reshape(by_pair(groups, done[0]), pairs)};
}

Results lower_expert_linear_input_grad(graph::Graph& graph, const graph::Node& node,
                                       Operands inputs) {
  const Value dy = inputs[0], experts = inputs[1], weight = inputs[2];
  const int64_t out = weight.dim(1), in = weight.dim(2);
  const Shape pairs{experts.dim(0), experts.dim(1), in};
  if (experts.shape().count() == 0) return {zeros(graph, Shape{pairs[0], in})};
  const ExpertGroups groups(experts, weight.dim(0));
  CountedLoop loop("tile of an expert's input gradient", axes_of(inputs), groups.tiles);
  const Value tiled = loop.state(zeros(graph, Shape{groups.most_tiles * groups.tile, in}));
  const ExpertTile tile = tile_at(loop, groups);
  Value d = take(loop.outside(reshape(dy, Shape{groups.pairs, out})), tile.pair);
  if (node.attributes.flag("has_scale"))
    d = multiply(d, matrix_of(loop.outside(inputs[3]), tile.expert));
  const Value dx = dot(d, widen_weight(matrix_of(loop.outside(weight), tile.expert), {}));
  const auto done = loop.run({put_rows(tiled, dx, times(loop.step(), groups.tile))});
  return {sum(reshape(by_pair(groups, done[0]), pairs), {1})};
}

Results lower_expert_linear_weight_grad(graph::Graph& graph, const graph::Node& node,
                                        Operands inputs) {
  const Value dy = inputs[0], experts = inputs[1], x = inputs[2];
  const int64_t count = node.attributes.integer("count"), out = dy.dim(2), in = x.dim(1);
  const Value none = zeros(graph, Shape{count, out, in});
  if (experts.shape().count() == 0) return {none};
  const ExpertGroups groups(experts, count);
  CountedLoop loop("tile of an expert's weight gradient", axes_of(inputs), groups.tiles);
  const Value sums = loop.state(none);
  const ExpertTile tile = tile_at(loop, groups);
  const Value all = take(loop.outside(reshape(dy, Shape{groups.pairs, out})), tile.pair);
  const Value d = select(column(tile.valid), all, full_like(all, 0));
  const Value rows = take(loop.outside(x), pair_row(tile.pair, groups));
  const Value share = dot(transpose(d, {1, 0}), rows);
  const Value own = rows_at(sums, tile.expert, 1);
  return loop.run({put_rows(sums, add(own, reshape(share, own.shape())), tile.expert)});
}

} // namespace dllm::pjrt

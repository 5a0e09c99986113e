// Lowers expert_linear and its gradients.

#include "graph/ops/build.h"
#include "pjrt/lower/lower.h"

#include <algorithm>

namespace dllm::pjrt {

// Pairs (row, choice) grouped by expert. Each group is cut into tiles of equal size. A loop over
// tiles reads the matrix of one expert in each step and multiplies only rows of this expert. The
// pairs fill at most pairs / tile + experts tiles; the number in use is known only at run time.
struct ExpertGroups {
  int64_t choices, pairs, experts, tile, most_tiles;
  graph::Value tiles;  // i32(): number of tiles in use
  graph::Value order;  // i32(pairs + tile): pairs by expert; pairs without an expert are last
  graph::Value expert; // i32(most_tiles): the expert of each tile
  graph::Value first;  // i32(most_tiles): index in `order` at which the tile begins
  graph::Value last;   // i32(most_tiles): index in `order` at which the group of the tile ends
  graph::Value slot;   // i32(pairs): row of the pair's result, where rows are stored tile by tile
  graph::Value exists; // u8(pairs): 1 if the pair has an expert

  // numbers: i32(rows, choices), the experts of each row. A number outside of 0..experts-1 means no
  // expert.
  ExpertGroups(graph::Value numbers, int64_t experts);
};

// One tile inside a loop over `groups`.
struct ExpertTile {
  graph::Value expert; // i32()
  graph::Value pair;   // i32(tile): the pairs; any pairs after the end of the group
  graph::Value valid;  // u8(tile): 1 for a pair of the group
};
ExpertTile tile_at(CountedLoop& loop, const ExpertGroups& groups);

// Returns rows (pairs, n) from rows stored tile by tile; 0 for pairs without an expert.
graph::Value by_pair(const ExpertGroups& groups, graph::Value tiled);

using graph::Value;
using namespace graph::ops;

namespace {

constexpr int64_t kLeastTile = 8, kMostTile = 256; // pairs

// Returns about the size of a mean group. Smaller tiles would read a matrix several times; larger
// tiles would be mostly padding.
int64_t tile_of(int64_t pairs, int64_t experts) {
  int64_t tile = kLeastTile;
  while (tile < kMostTile && tile * experts < pairs) tile *= 2;
  return tile;
}

// Returns for each element of x i32(n) the sum of the elements before it.
Value sum_before(Value x) {
  return subtract(cumsum(x, 0), x);
}

} // namespace

ExpertGroups::ExpertGroups(Value numbers, int64_t expert_count)
    : choices(numbers.dim(1)), pairs(numbers.shape().count()), experts(expert_count),
      tile(tile_of(pairs, expert_count)), most_tiles(pairs / tile + expert_count) {
  graph::Graph& graph = *numbers.graph;
  const auto i32 = [&](int64_t value) {
    return graph::scalar_i32(graph, static_cast<int32_t>(value));
  };
  const Value flat = reshape(numbers, Shape{pairs});
  exists = logical_and(greater_equal(flat, i32(0)), less(flat, i32(experts)));
  const Value key = select(exists, flat, broadcast(i32(experts), flat.shape()));
  const Value by_expert = graph::sort(key, false).indices;
  order = pad_rows(by_expert, pairs + tile, 0);

  // For each expert: the number of its pairs and tiles, and where they begin.
  const Value own = equal(column(key), iota(graph, Shape{1, experts}, DType::i32, 1));
  const Value count = sum(convert(own, DType::i32), {0}); // (experts)
  const Value tile_count = divide(add(count, i32(tile - 1)), i32(tile));
  const Value group = sum_before(count), first_tile = sum_before(tile_count);
  const Value tile_end = add(first_tile, tile_count);
  tiles = sum(tile_count, {0});

  // For each tile: its expert is the number of experts whose tiles end before it.
  const Value number = iota(graph, Shape{most_tiles}, DType::i32, 0);
  const Value passed = less_equal(reshape(tile_end, Shape{1, experts}), column(number));
  expert = minimum(sum(convert(passed, DType::i32), {1}), i32(experts - 1));
  first = add(take(group, expert), times(subtract(number, take(first_tile, expert)), tile));
  last = add(take(group, expert), take(count, expert));

  // For each pair: its index in the sorted order, then in its group, then in the tiles.
  const Value place = iota(graph, Shape{pairs}, DType::i32, 0);
  const Value rank = scatter_set(zeros_of(graph, {Shape{pairs}, DType::i32, {}}), by_expert, place);
  const Value in_group =
      subtract(rank, take(group, key)); // beyond the last expert: clamped, unused
  slot = add(times(take(first_tile, key), tile), in_group);
}

ExpertTile tile_at(CountedLoop& loop, const ExpertGroups& groups) {
  const auto of_tile = [&](Value x) {
    return reshape(rows_at(loop.outside(x), loop.step(), 1), Shape{});
  };
  const Value first = of_tile(groups.first), last = of_tile(groups.last);
  const Value place = add(iota(loop.graph(), Shape{groups.tile}, DType::i32, 0), first);
  return {of_tile(groups.expert), rows_at(loop.outside(groups.order), first, groups.tile),
          less(place, last)};
}

Value by_pair(const ExpertGroups& groups, Value tiled) {
  const Value rows = take(tiled, groups.slot);
  return select(column(groups.exists), rows, full_like(rows, 0));
}

// expert_linear and its two gradients are loops over tiles of pairs that share an expert. The
// matrix of the expert is sliced from the stack and widened right at the product.

using graph::Value;
using namespace graph::ops;

namespace {

// Returns the matrix (out, in) of one expert of (experts, out, in), in its stored form. The matrix
// does not name the format of its blocks.
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
  const Value matrix =
      widen_weight(matrix_of(loop.outside(weight), tile.expert), {}, weight.type().format);
  Value y = dot(rows, transpose(matrix, {1, 0}));
  if (node.attributes.flag("has_scale"))
    y = multiply(y, matrix_of(loop.outside(inputs[3]), tile.expert));
  const auto done = loop.run({put_rows(tiled, y, times(loop.step(), groups.tile))});
  return {reshape(by_pair(groups, done[0]), pairs)};
}

Results lower_expert_linear_input_grad(graph::Graph& graph, const graph::Node& node,
                                       Operands inputs) {
  const Value dy = inputs[0], experts = inputs[1], weight = inputs[2];
  const int64_t out = weight.dim(1), in = weight.type().numbers().dim(2);
  const Shape pairs{experts.dim(0), experts.dim(1), in};
  if (experts.shape().count() == 0) return {zeros(graph, Shape{pairs[0], in})};
  const ExpertGroups groups(experts, weight.dim(0));
  CountedLoop loop("tile of an expert's input gradient", axes_of(inputs), groups.tiles);
  const Value tiled = loop.state(zeros(graph, Shape{groups.most_tiles * groups.tile, in}));
  const ExpertTile tile = tile_at(loop, groups);
  Value d = take(loop.outside(reshape(dy, Shape{groups.pairs, out})), tile.pair);
  if (node.attributes.flag("has_scale"))
    d = multiply(d, matrix_of(loop.outside(inputs[3]), tile.expert));
  const Value matrix = matrix_of(loop.outside(weight), tile.expert);
  const Value dx = dot(d, widen_weight(matrix, {}, weight.type().format));
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

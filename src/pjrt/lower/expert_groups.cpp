#include "pjrt/lower/expert_groups.h"

#include "graph/ops/build.h"

#include <algorithm>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

constexpr int64_t kLeastTile = 8, kMostTile = 256; // pairs

// About the size of a mean group: smaller tiles read a matrix more than once, larger ones are
// mostly padding.
int64_t tile_of(int64_t pairs, int64_t experts) {
  int64_t tile = kLeastTile;
  while (tile < kMostTile && tile * experts < pairs) tile *= 2;
  return tile;
}

// i32(n) known at run time -> running sum before each, (n)
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

  // Of each expert: pairs, tiles, and where they begin.
  const Value own = equal(column(key), iota(graph, Shape{1, experts}, DType::i32, 1));
  const Value count = sum(convert(own, DType::i32), {0}); // (experts)
  const Value tile_count = divide(add(count, i32(tile - 1)), i32(tile));
  const Value group = sum_before(count), first_tile = sum_before(tile_count);
  const Value tile_end = add(first_tile, tile_count);
  tiles = sum(tile_count, {0});

  // Of each tile: its expert is the number of experts whose tiles end before.
  const Value number = iota(graph, Shape{most_tiles}, DType::i32, 0);
  const Value passed = less_equal(reshape(tile_end, Shape{1, experts}), column(number));
  expert = minimum(sum(convert(passed, DType::i32), {1}), i32(experts - 1));
  first = add(take(group, expert), times(subtract(number, take(first_tile, expert)), tile));
  last = add(take(group, expert), take(count, expert));

  // Of each pair: its place among the sorted, then in its group, then in the tiles.
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

} // namespace dllm::pjrt

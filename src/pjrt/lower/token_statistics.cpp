// token_statistics: logits of a tile of rows at a time. Greedy decoding reads them a few times and
// nothing else; the draw is a loop of at most one step.

#include "graph/ops/build.h"
#include "pjrt/lower/head.h"
#include "pjrt/lower/lowerings.h"
#include "pjrt/lower/token_rows.h"

#include <algorithm>
#include <limits>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr int64_t kTileLogits = int64_t{1} << 25; // 128 MiB
constexpr int64_t kFewRows = 32;
// Up to here the best ids are found one by one, each by one walk that fuses with the comparison:
// compilers for CPUs make top_k a sort of the whole vocabulary.
constexpr int64_t kOneByOne = 4;

struct Where {
  HeadOperands head;
  int count, temperature, top_k, top_p, uniform, noise, banned;

  explicit Where(const graph::Attributes& attributes) {
    OperandOrder order(2);
    head = head_operands(attributes, order);
    count = order.take(attributes.flag("has_count"));
    temperature = order.take();
    top_k = order.take();
    top_p = order.take();
    uniform = order.take();
    noise = order.take(attributes.flag("has_noise"));
    banned = order.take(attributes.flag("has_banned"));
  }
};

struct Best {
  std::vector<Value> ids, values; // of each place, (rows)
};

// The first `top` of each row in the order (larger first, lower id first).
Best best_of(Value logits, int64_t top) {
  Best best;
  if (top > kOneByOne) {
    const graph::TopK found = top_k(logits, top);
    for (int64_t i = 0; i < top; ++i) {
      const Shape row{logits.dim(0)};
      best.ids.push_back(reshape(slice_axis(found.indices, 1, i, i + 1), row));
      best.values.push_back(reshape(slice_axis(found.values, 1, i, i + 1), row));
    }
    return best;
  }
  const Value id = iota(*logits.graph, logits.shape(), DType::i32, 1);
  const Value never = full_like(logits, kNever);
  Value left = logits;
  for (int64_t i = 0; i < top; ++i) {
    if (i > 0) { // those that come after the last one
      const Value last = column(best.values.back());
      const Value tie = logical_and(equal(logits, last), greater(id, column(best.ids.back())));
      left = select(logical_or(less(logits, last), tie), logits, never);
    }
    best.ids.push_back(argmax(left, 1));
    best.values.push_back(max(left, {1}));
  }
  return best;
}

Value side_by_side(const std::vector<Value>& rows) {
  std::vector<Value> columns;
  for (Value row : rows) columns.push_back(column(row));
  return graph::concat(columns, 1);
}

// Everything about a tile: logits (rows, vocab), in_use u8(rows).
Results tile_statistics(Value logits, Value in_use, const DrawRequest& ask, int64_t top) {
  const Best best = best_of(logits, top);
  const Value highest = best.values[0];
  // All ids banned, or the model overflowed: such a row gives zeros, as on the CPU engine.
  const Value active = logical_and(in_use, is_finite(highest));
  const Value safe = select(active, highest, full_like(highest, 0));
  const Value gap = subtract(logits, column(safe)), weight = exp(gap);
  const Value total = sum(weight, {1}), lse = add(safe, log(total));
  // entropy = lse - sum p logit = log total - sum weight gap / total
  const Value none = full_like(logits, 0);
  const Value terms = sum(select(greater(weight, none), multiply(weight, gap), none), {1});
  const Drawn drawn = draw(ask, logits, best.ids[0], active);
  const auto prob_of = [&](Value logit) { return exp(subtract(logit, lse)); };
  std::vector<Value> top_ids, top_probs;
  for (size_t i = 0; i < best.ids.size(); ++i) {
    const Value seen = greater(best.values[i], full_like(best.values[i], kNever));
    top_ids.push_back(select(seen, best.ids[i], full_like(best.ids[i], 0)));
    top_probs.push_back(prob_of(best.values[i]));
  }
  Results made{best.ids[0],
               prob_of(highest),
               lse,
               subtract(log(total), divide(terms, total)),
               side_by_side(top_ids),
               side_by_side(top_probs),
               drawn.id,
               prob_of(at_id(logits, drawn.id)),
               drawn.shaped_prob,
               drawn.margin,
               drawn.entropy};
  for (Value& x : made) x = select(x.rank() == 2 ? column(active) : active, x, full_like(x, 0));
  return made;
}

Value ban(Value logits, Value banned) {
  if (!banned.defined()) return logits;
  const Value number = convert(banned, DType::i32);
  return select(not_equal(number, full_like(number, 0)), full_like(logits, kNever), logits);
}

} // namespace

Results lower_token_statistics(graph::Graph& graph, const graph::Node& node, Operands inputs) {
  const Where at(node.attributes);
  const auto operand = [&](int index) {
    return index >= 0 ? inputs[static_cast<size_t>(index)] : Value{};
  };
  const int64_t top = node.attributes.integer("top");
  const Head head(at.head, inputs);
  DrawRequest ask{
      operand(at.temperature),       operand(at.top_k), operand(at.top_p),
      operand(at.uniform),           operand(at.noise), node.attributes.flag("nucleus_first"),
      node.attributes.flag("shaped")};
  const Value x = inputs[0], count = operand(at.count), banned = operand(at.banned);
  const int64_t capacity = x.dim(0);
  const RowTiles tiles = tile_rows(capacity, std::max(kFewRows, kTileLogits / head.vocab()));
  const auto in_use = [&](Value begin, Value rows_used) {
    const Value row = add(iota(*begin.graph, Shape{tiles.rows}, DType::i32, 0), begin);
    return rows_used.defined() ? less(row, rows_used) : greater_equal(row, begin);
  };
  if (tiles.tiles == 1) {
    return tile_statistics(ban(head.logits(x), banned), in_use(graph::scalar_i32(graph, 0), count),
                           ask, top);
  }
  CountedLoop loop("tile of token rows", axes_of(inputs),
                   tiles_in_use(graph, tiles, count, capacity));
  std::vector<Value> results; // (padded, ..)
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool is_id = i == 0 || i == 4 || i == 6, is_list = i == 4 || i == 5;
    const Shape shape = is_list ? Shape{tiles.padded(), top} : Shape{tiles.padded()};
    results.push_back(loop.state(zeros_of(graph, {shape, is_id ? DType::i32 : DType::f32, {}})));
  }
  const Value begin = times(loop.step(), tiles.rows);
  const auto tile_of = [&](Value rows) {
    if (!rows.defined()) return Value{};
    return rows_at(loop.outside(pad_rows(rows, tiles.padded(), 0)), begin, tiles.rows);
  };
  const Value tile = tile_of(x);
  const DrawRequest tile_ask{
      tile_of(ask.temperature), tile_of(ask.top_k), tile_of(ask.top_p), tile_of(ask.uniform),
      tile_of(ask.noise),       ask.nucleus_first,  ask.shaped};
  const Head inner = head.inside(loop);
  const Value inner_banned = loop.outside(banned), inner_count = loop.outside(count);
  const Results made = tile_statistics(ban(inner.logits(tile), inner_banned),
                                       in_use(begin, inner_count), tile_ask, top);
  std::vector<Value> next;
  for (size_t i = 0; i < made.size(); ++i) next.push_back(put_rows(results[i], made[i], begin));
  std::vector<Value> done = loop.run(next);
  for (Value& x_done : done) x_done = slice_axis(x_done, 0, 0, capacity);
  return done;
}

} // namespace dllm::pjrt

// Lowers token_statistics, one tile of rows at a time. Greedy decoding only reads the logits a few
// times; the draw is a branch that runs if a row needs it.

#include "graph/ops/build.h"
#include "pjrt/lower/head.h"
#include "pjrt/lower/lower.h"

#include <algorithm>
#include <limits>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr int64_t kTileLogits = int64_t{1} << 24; // 64 MiB; a compiler holds up to 8 such arrays
constexpr int64_t kFewRows = 32;
// Up to this number the best ids are found one by one, each by one pass over the row that fuses
// with the comparison. Compilers for CPUs turn top_k into a sort of the whole vocabulary: 32 rows
// of 151936 ids take 4.9 s, four passes 0.3 s.
constexpr int64_t kOneByOne = 64;

struct Where {
  HeadOperands head;
  int count, temperature;
  std::vector<const graph::DrawFilter*> filters;
  int first_filter, uniform, noise, banned;

  explicit Where(const graph::Attributes& attributes) {
    OperandOrder order(2);
    head = head_operands(attributes, order);
    count = order.take(attributes.flag("has_count"));
    temperature = order.take();
    filters = graph::named_filters(attributes.text("filters"));
    first_filter = order.count();
    for (size_t i = 0; i < filters.size(); ++i) order.take();
    uniform = order.take();
    noise = order.take(attributes.flag("has_noise"));
    banned = order.take(attributes.flag("has_banned"));
  }
};

// Returns the best ids (rows, top), larger logits first, then lower ids.
graph::TopK best_of(Value logits, int64_t top) {
  if (top > kOneByOne) return top_k(logits, top);
  const Value id = column(argmax(logits, 1)), value = max(logits, {1}, true);
  if (top == 1) return {value, id};
  const std::vector<Value> operands{logits};
  ScanBody body("next best id", axes_of(operands));
  const Value last = body.state(value), last_id = body.state(id);
  const Value all = body.outside(logits);
  const Value place = iota(body.graph(), all.shape(), DType::i32, 1);
  // Ids that come after the last one in the order.
  const Value tie = logical_and(equal(all, last), greater(place, last_id));
  const Value left = select(logical_or(less(all, last), tie), all, full_like(all, kNever));
  const Value next_id = column(argmax(left, 1)), next = max(left, {1}, true);
  const auto rest = body.run({next, next_id}, {next, next_id}, top - 1).stacked;
  const Shape wide{logits.dim(0), top - 1};
  const auto with_first = [&](Value first, Value stacked) { // (top - 1, rows, 1)
    return graph::concat({first, reshape(transpose(stacked, {1, 0, 2}), wide)}, 1);
  };
  return {with_first(value, rest[0]), with_first(id, rest[1])};
}

// Returns all results of a tile. logits (rows, vocab), in_use u8(rows). as_softmax: probabilities
// are computed as exp(z - max) / sum, not as exp(z - lse).
Results tile_statistics(Value logits, Value in_use, const DrawRequest& ask, int64_t top,
                        bool as_softmax) {
  const graph::TopK best = best_of(logits, top);
  const Shape row = in_use.shape();
  const Value highest = reshape(slice_axis(best.values, 1, 0, 1), row);
  const Value best_id = reshape(slice_axis(best.indices, 1, 0, 1), row);
  // A row whose ids are all banned, or of a model that overflowed, results in zeros, as on the cpu
  // engine.
  const Value active = logical_and(in_use, is_finite(highest));
  const Value safe = select(active, highest, full_like(highest, 0));
  const Value gap = subtract(logits, column(safe)), weight = exp(gap);
  const Value total = sum(weight, {1}), lse = add(safe, log(total));
  // entropy = lse - sum p logit = log total - sum weight gap / total
  const Value none = full_like(logits, 0);
  const Value terms = sum(select(greater(weight, none), multiply(weight, gap), none), {1});
  const Drawn drawn = draw(ask, logits, best_id, active);
  const auto prob_of = [&](Value logit) {
    return as_softmax ? divide(exp(subtract(logit, safe)), total) : exp(subtract(logit, lse));
  };
  const Value seen = greater(best.values, full_like(best.values, kNever));
  Results made{best_id,
               prob_of(highest),
               lse,
               subtract(log(total), divide(terms, total)),
               select(seen, best.indices, full_like(best.indices, 0)),
               as_softmax ? divide(exp(subtract(best.values, column(safe))), column(total))
                          : exp(subtract(best.values, column(lse))),
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
  const bool as_softmax = node.attributes.has("as_softmax");
  const Head head(at.head, inputs);
  DrawRequest ask{operand(at.temperature),
                  {},
                  operand(at.uniform),
                  operand(at.noise),
                  node.attributes.flag("shaped")};
  for (size_t i = 0; i < at.filters.size(); ++i)
    ask.filters.push_back({at.filters[i], operand(at.first_filter + static_cast<int>(i))});
  const Value x = inputs[0], count = operand(at.count), banned = operand(at.banned);
  const int64_t capacity = x.dim(0);
  const RowTiles tiles = tile_rows(capacity, std::max(kFewRows, kTileLogits / head.vocab()));
  const auto in_use = [&](Value begin, Value rows_used) {
    const Value row = add(iota(*begin.graph, Shape{tiles.rows}, DType::i32, 0), begin);
    return rows_used.defined() ? less(row, rows_used) : greater_equal(row, begin);
  };
  if (tiles.tiles == 1) {
    return tile_statistics(ban(head.logits(x), banned), in_use(graph::scalar_i32(graph, 0), count),
                           ask, top, as_softmax);
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
  const DrawRequest tile_ask = ask.with(tile_of);
  const Head inner = head.inside(loop);
  const bool has_own = banned.defined() && banned.rank() == 2; // a row for each row of x
  const Value inner_banned = has_own ? tile_of(banned) : loop.outside(banned);
  const Value inner_count = loop.outside(count);
  const Results made = tile_statistics(ban(inner.logits(tile), inner_banned),
                                       in_use(begin, inner_count), tile_ask, top, as_softmax);
  std::vector<Value> next;
  for (size_t i = 0; i < made.size(); ++i) next.push_back(put_rows(results[i], made[i], begin));
  std::vector<Value> done = loop.run(next);
  for (Value& x_done : done) x_done = slice_axis(x_done, 0, 0, capacity);
  return done;
}

} // namespace dllm::pjrt

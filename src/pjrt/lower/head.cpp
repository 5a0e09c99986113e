// Rows of logits, and searches in rows of weights.
#include "pjrt/lower/head.h"

#include "graph/ops/build.h"

#include <algorithm>
#include <limits>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

constexpr int64_t kLogits = int64_t{1} << 24; // logits of one part, 64 MiB
constexpr int64_t kLanes = 128;               // widths of parts are multiples of it

} // namespace

Head::Head(const HeadOperands& at, std::span<const Value> inputs)
    : weight(inputs[1]), format(inputs[1].type().format), softcap(at.softcap) {
  if (at.bias >= 0) bias = inputs[static_cast<size_t>(at.bias)];
  if (at.scale >= 0) scale = inputs[static_cast<size_t>(at.scale)];
}

Head Head::inside(LoopBody& body) const {
  Head made = *this;
  made.weight = body.outside(weight);
  made.bias = body.outside(bias);
  made.scale = body.outside(scale);
  return made;
}

Head Head::part(Value begin, int64_t count) const {
  Head made = *this;
  made.weight = rows_at(weight, begin, count);
  if (bias.defined()) made.bias = rows_at(bias, begin, count);
  if (scale.defined()) made.scale = rows_at(scale, begin, count);
  return made;
}

Value Head::logits(Value x) const {
  Value y = dot(x, transpose(widen_weight(weight, {}, format), {1, 0}));
  if (scale.defined()) y = multiply(y, scale);
  if (bias.defined()) y = add(y, bias);
  return graph::softcap(y, static_cast<float>(softcap));
}

Value Head::input_grad(Value d) const {
  return dot(scale.defined() ? multiply(d, scale) : d, widen_weight(weight, {}, format));
}

RowTiles tile_rows(int64_t capacity, int64_t most) {
  const int64_t tiles = std::max<int64_t>(1, (capacity + most - 1) / most);
  return {(capacity + tiles - 1) / tiles, tiles};
}

Value tiles_in_use(graph::Graph& graph, const RowTiles& tiles, Value count, int64_t capacity) {
  if (!count.defined()) return graph::scalar_i32(graph, static_cast<int32_t>(tiles.tiles));
  const Value none = full_like(count, 0);
  const Value used = clamp(none, count, full_like(count, static_cast<double>(capacity)));
  const Value last = add(used, full_like(count, static_cast<double>(tiles.rows - 1)));
  return divide(last, full_like(count, static_cast<double>(tiles.rows)));
}

std::vector<Value> over_vocabulary(const Head& head, int64_t rows, std::vector<Value> state,
                                   const std::vector<Value>& outside, const VocabularyStep& step) {
  graph::Graph& graph = *head.weight.graph;
  const int64_t fitting = kLogits / std::max<int64_t>(1, rows) / kLanes * kLanes;
  const int64_t width = std::max(8 * kLanes, fitting), whole = head.vocab() / width;
  if (whole > 0 && head.vocab() > width) {
    std::vector<Value> all = state;
    all.insert(all.end(), outside.begin(), outside.end());
    all.push_back(head.weight);
    ScanBody body("part of the vocabulary", axes_of(all));
    std::vector<Value> inner;
    for (Value value : state) inner.push_back(body.state(value));
    const Value index = body.element(iota(graph, Shape{whole}, DType::i32, 0));
    VocabularyPart part{head.inside(body), times(index, width), {}};
    part.head = part.head.part(part.begin, width);
    for (Value value : outside) part.outside.push_back(body.outside(value));
    state = body.run(step(part, inner), {}, whole).carry;
  }
  const int64_t done = head.vocab() > width ? whole * width : 0;
  if (done == head.vocab()) return state;
  const Value begin = graph::scalar_i32(graph, static_cast<int32_t>(done));
  Head rest = head;
  if (done > 0) {
    rest.weight = slice_axis(head.weight, 0, done, head.vocab());
    if (head.bias.defined()) rest.bias = slice_axis(head.bias, 0, done, head.vocab());
    if (head.scale.defined()) rest.scale = slice_axis(head.scale, 0, done, head.vocab());
  }
  return step({rest, begin, outside}, state);
}

LossOperands loss_operands(const graph::Attributes& attributes, bool gradient) {
  OperandOrder order(2);
  LossOperands at{};
  at.head = head_operands(attributes, order);
  at.targets = order.take();
  at.count = order.take(attributes.flag("has_count"));
  at.lse = order.take(gradient);
  at.dnll = order.take(gradient);
  return at;
}

Value rows_with_target(Value targets, Value begin, Value count, int64_t vocab) {
  const Value named = logical_and(greater_equal(targets, full_like(targets, 0)),
                                  less(targets, full_like(targets, static_cast<double>(vocab))));
  if (!count.defined()) return named;
  const Value row = add(iota(*targets.graph, targets.shape(), DType::i32, 0), begin);
  return logical_and(named, less(row, count));
}

Value target_mask(Value targets, Value begin, int64_t width) {
  const Value id = iota(*targets.graph, Shape{1, width}, DType::i32, 1);
  return equal(id, column(subtract(targets, begin)));
}

namespace {

constexpr int64_t kPiece = 512; // ids

struct Place {
  Value index;  // i32(rows)
  Value before; // f32(rows, 1): sum of the weights before it
};
// Returns the first index at which the running sum exceeds the limit, else the last index of
// positive weight, else 0. weight (rows, n), limit (rows, 1).
Place search(Value weight, Value limit) {
  const Value running = cumsum(weight, 1), none = full_like(weight, 0);
  const Value positive = greater(weight, none);
  const Value beyond = logical_and(positive, greater(running, limit));
  const Value at = iota(*weight.graph, weight.shape(), DType::i32, 1);
  const Value last = max(select(positive, at, full_like(at, 0)), {1});
  const auto end = static_cast<double>(weight.dim(1));
  const Value first = min(select(beyond, at, full_like(at, end)), {1});
  const Value index = select(less(first, full_like(first, end)), first, last);
  const Value sum_there = take_along(running, column(index), 1);
  return {index, subtract(sum_there, take_along(weight, column(index), 1))};
}

} // namespace

Value order_key(Value z) {
  const Value zero = full_like(z, 0);
  const Value bits = bitcast(select(equal(z, zero), zero, z), DType::i32);
  const Value flipped = logical_xor(bits, full_like(bits, std::numeric_limits<int32_t>::max()));
  return select(less(bits, full_like(bits, 0)), flipped, bits);
}

Value before_cut(Value key, const Cut& cut) {
  const Value id = iota(*key.graph, key.shape(), DType::i32, 1), last = column(cut.key);
  const Value tie = logical_and(equal(key, last), less_equal(id, column(cut.id)));
  return logical_or(greater(key, last), tie);
}

namespace {

// Weights cut into pieces of kPiece ids. A search finds the piece by the sums of pieces, then the
// id inside it. Compared with a running sum over the whole vocabulary this is less work and rounds
// less often.
struct Pieces {
  Value weight; // (rows, pieces, kPiece)
  Value sums;   // (rows, pieces)

  explicit Pieces(Value x) {
    const int64_t rows = x.dim(0), vocab = x.dim(1), pieces = (vocab + kPiece - 1) / kPiece;
    if (pieces * kPiece != vocab)
      x = pad(x, {0, 0}, {0, pieces * kPiece - vocab}, graph::scalar(*x.graph, 0));
    weight = reshape(x, Shape{rows, pieces, kPiece});
    sums = sum(weight, {2});
  }
  // limit (rows, 1)
  Value first_beyond(Value limit) const {
    const int64_t rows = sums.dim(0);
    const Place piece = search(sums, limit);
    const Value where = broadcast(reshape(piece.index, Shape{rows, 1, 1}), Shape{rows, 1, kPiece});
    const Value inside = reshape(take_along(weight, where, 1), Shape{rows, kPiece});
    const Place id = search(inside, subtract(limit, piece.before));
    return add(times(piece.index, kPiece), id.index);
  }
};

} // namespace

Value first_beyond(Value weight, Value limit) {
  return Pieces(weight).first_beyond(column(limit));
}

Value invert(Value weight, Value share) {
  const Pieces pieces(weight);
  const int64_t count = pieces.sums.dim(1);
  // The total is the running sum that the search compares with the limit, not another rounding.
  const Value total = slice_axis(cumsum(pieces.sums, 1), 1, count - 1, count);
  return pieces.first_beyond(multiply(column(share), total));
}

Value at_id(Value x, Value id) {
  return reshape(take_along(x, column(id), 1), Shape{x.dim(0)});
}

} // namespace dllm::pjrt

#include "pjrt/lower/head.h"

#include "graph/ops/build.h"

#include <limits>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

constexpr int64_t kPiece = 512; // ids

// The first place whose running sum exceeds the limit, else the last of positive weight, else 0.
// weight (rows, n), limit (rows, 1); before (rows, 1): sum of what comes first.
struct Place {
  Value index;  // i32(rows)
  Value before; // f32(rows, 1): sum before it
};
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

// Sums of pieces find the piece, then only its ids are summed one by one: no running sum over the
// whole vocabulary, and fewer roundings.
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
  // The total is the sum that the search compares with.
  const Value total = slice_axis(cumsum(pieces.sums, 1), 1, count - 1, count);
  return pieces.first_beyond(multiply(column(share), total));
}

Value at_id(Value x, Value id) {
  return reshape(take_along(x, column(id), 1), Shape{x.dim(0)});
}

} // namespace dllm::pjrt

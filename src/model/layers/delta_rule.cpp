// Computes the gated delta rule in chunks of T positions. Within a chunk the writes of all
// positions solve a unit triangular system, and the state is carried from chunk to chunk. Let G be
// the running sum of g, and D_ij = exp(G_i - G_j) for j <= i. Then
//   A = I + strictly lower part of (beta K K' * D),  N = A^-1 beta (V - exp(G) K S),
//   O = exp(G) Q S + (Q K' * D) N,  S <- exp(G_T) S + (exp(G_T - G) K)' N.

#include "model/layers/delta_rule.h"

#include "graph/ops.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

using graph::Value;

// Returns a table of 0 and 1, f32(size, size).
Value square_mask(graph::Graph& graph, int64_t size,
                  const std::function<bool(int64_t row, int64_t column)>& is_on) {
  Tensor table(DType::f32, {size, size});
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j)
      table.mutable_as<float>()[static_cast<size_t>(i * size + j)] = is_on(i, j) ? 1.0f : 0.0f;
  }
  return graph::constant(graph, table);
}

Value turned(Value x) { // last two axes
  std::vector<int64_t> axes;
  for (int64_t i = 0; i + 2 < x.rank(); ++i) axes.push_back(i);
  axes.push_back(x.rank() - 1);
  axes.push_back(x.rank() - 2);
  return graph::transpose(x, axes);
}

// Returns (I + lower)^-1 for a strictly lower (.., size, size). Blocks on the diagonal are joined
// in pairs:
//   [[P, 0], [C, R]]^-1 = [[P^-1, 0], [-R^-1 C P^-1, R^-1]].
// A sum of powers of `lower` would cancel where keys repeat.
Value inverse_of_unit_lower(Value lower) {
  graph::Graph& graph = *lower.graph;
  const int64_t size = lower.dim(lower.rank() - 1);
  Value inverse = square_mask(graph, size, [](int64_t i, int64_t j) { return i == j; });
  for (int64_t block = 1; block < size; block *= 2) {
    const Value border = graph::multiply(lower, square_mask(graph, size, [=](int64_t i, int64_t j) {
                                           const int64_t row = i / block, column = j / block;
                                           return row % 2 == 1 && column == row - 1;
                                         }));
    inverse = graph::subtract(
        inverse, block == 1 ? border : graph::dot(inverse, graph::dot(border, inverse)));
  }
  return inverse;
}

// The inputs of one chunk. Without segments and length the last three are undefined.
struct DeltaChunk {
  Value q, k, v;          // (batch, heads, T, dim)
  Value g, beta;          // (batch, heads, T)
  Value valid;            // f32(batch, T): 1 for the positions that the kept state counts
  Value segments, before; // i32(batch, T); i32(batch): segment of the position before the chunk
};

struct ChunkStates {
  // `state` is after all positions, `kept` after the valid ones. `kept` is undefined where it is
  // not needed.
  Value state, kept;
};

Value equal_segments(Value x, Value y) {
  return graph::convert(graph::equal(x, y), DType::f32);
}

// Returns the result of a chunk and updates the states.
Value run_chunk(const DeltaChunk& in, ChunkStates& states) {
  graph::Graph& graph = *in.q.graph;
  const int64_t batch = in.q.dim(0), heads = in.q.dim(1), size = in.q.dim(2);
  const Value zero = graph::scalar(graph, 0.0f);
  const auto column = [&](Value x) { return graph::reshape(x, {batch, heads, size, 1}); };
  const Value sums = graph::cumsum(in.g, 2);
  const Value last = graph::slice_axis(sums, 2, size - 1, size); // (batch, heads, 1)
  // Above the diagonal the differences are positive. They are set to 0 before exp, then masked.
  Value decay = graph::exp(graph::minimum(
      graph::subtract(column(sums), graph::reshape(sums, {batch, heads, 1, size})), zero));
  decay =
      graph::multiply(decay, square_mask(graph, size, [](int64_t i, int64_t j) { return j <= i; }));
  Value from_start = graph::exp(sums), to_end = graph::exp(graph::subtract(last, sums)),
        through = graph::exp(last);
  if (in.segments.defined()) { // a text does not see the state of another text
    const Value rows = graph::reshape(in.segments, {batch, 1, size});
    const Value end = graph::slice_axis(rows, 2, size - 1, size),
                before = graph::reshape(in.before, {batch, 1, 1});
    decay =
        graph::multiply(decay, equal_segments(graph::reshape(in.segments, {batch, 1, size, 1}),
                                              graph::reshape(in.segments, {batch, 1, 1, size})));
    from_start = graph::multiply(from_start, equal_segments(rows, before));
    to_end = graph::multiply(to_end, equal_segments(rows, end));
    through = graph::multiply(through, equal_segments(end, before));
  }
  const Value keys = turned(in.k), beta = column(in.beta);
  const Value lower =
      graph::multiply(graph::multiply(graph::multiply(graph::dot(in.k, keys), beta), decay),
                      square_mask(graph, size, [](int64_t i, int64_t j) { return j < i; }));
  const Value known = graph::multiply(graph::dot(in.k, states.state), column(from_start));
  const Value written =
      graph::dot(inverse_of_unit_lower(lower), graph::multiply(graph::subtract(in.v, known), beta));
  const Value out = graph::add(graph::multiply(graph::dot(in.q, states.state), column(from_start)),
                               graph::dot(graph::multiply(graph::dot(in.q, keys), decay), written));

  const auto next = [&](Value state, Value whole, Value shares) {
    const Value added = graph::dot(turned(graph::multiply(in.k, column(shares))), written);
    return graph::add(graph::multiply(state, graph::reshape(whole, {batch, heads, 1, 1})), added);
  };
  if (in.valid.defined()) { // valid positions come first, so `written` is theirs too
    const Value valid = graph::reshape(in.valid, {batch, 1, size});
    // A running sum, so that its bits do not depend on the number of positions after it.
    const Value end =
        graph::slice_axis(graph::cumsum(graph::multiply(in.g, valid), 2), 2, size - 1, size);
    const Value shares =
        graph::multiply(graph::exp(graph::minimum(graph::subtract(end, sums), zero)), valid);
    states.kept = next(states.kept, graph::exp(end), shares);
  }
  states.state = next(states.state, through, to_end);
  return out;
}

// Cuts x (batch, seq, ...) into (chunks, batch, ..., size, ...); the positions of a chunk come
// after the heads.
class Chunks {
public:
  Chunks(int64_t batch, int64_t seq, int64_t size)
      : batch_(batch), seq_(seq), size_(size), count_((seq + size - 1) / size) {}
  int64_t count() const { return count_; }

  Value padded(Value x) const {
    std::vector<int64_t> low(static_cast<size_t>(x.rank()), 0), high = low;
    high[1] = count_ * size_ - seq_;
    if (high[1] == 0) return x;
    if (x.dtype() == DType::i32) { // segments: the padding continues the last text
      const Value last = graph::slice_axis(x, 1, seq_ - 1, seq_);
      return graph::concat({x, graph::broadcast(last, Shape{batch_, high[1]})}, 1);
    }
    return graph::pad(x, low, high, graph::scalar(*x.graph, 0.0f));
  }
  Value rows(Value x) const { // (batch, seq) -> (chunks, batch, size)
    return graph::transpose(graph::reshape(padded(x), {batch_, count_, size_}), {1, 0, 2});
  }
  Value numbers(Value x) const { // (batch, seq, heads) -> (chunks, batch, heads, size)
    return graph::transpose(graph::reshape(padded(x), {batch_, count_, size_, x.dim(2)}),
                            {1, 0, 3, 2});
  }
  Value vectors(Value x) const { // (batch, seq, heads, dim) -> (chunks, batch, heads, size, dim)
    return graph::transpose(graph::reshape(padded(x), {batch_, count_, size_, x.dim(2), x.dim(3)}),
                            {1, 0, 3, 2, 4});
  }
  Value joined(Value x) const { // (chunks, batch, heads, size, dim) -> (batch, seq, heads, dim)
    const Value rows = graph::reshape(graph::transpose(x, {1, 0, 3, 2, 4}),
                                      {batch_, count_ * size_, x.dim(2), x.dim(4)});
    return graph::slice_axis(rows, 1, 0, seq_);
  }

private:
  int64_t batch_, seq_, size_, count_;
};

// Returns f32(batch, seq): 1 for the first length[b] positions.
Value first_positions(Value length, int64_t seq) {
  const int64_t batch = length.dim(0);
  const Value at =
      graph::broadcast(graph::iota(*length.graph, {1, seq}, DType::i32, 1), Shape{batch, seq});
  return graph::convert(graph::less(at, graph::reshape(length, {batch, 1})), DType::f32);
}

// Returns the segment of the position before each chunk, i32(chunks, batch). The first chunk
// continues its own text.
Value segments_before(Value rows) {
  const int64_t count = rows.dim(0), batch = rows.dim(1), size = rows.dim(2);
  const auto positions = [&](int64_t chunk, int64_t end, int64_t position) {
    return graph::reshape(graph::slice(rows, {chunk, 0, position}, {end, batch, position + 1}),
                          {end - chunk, batch});
  };
  const Value first = positions(0, 1, 0);
  return count == 1 ? first : graph::concat({first, positions(0, count - 1, size - 1)}, 0);
}

Value single(Value x) { // the only element of the first axis
  return graph::reshape(x, x.shape().without(0));
}

} // namespace

DeltaOutputs delta_rule(const DeltaInputs& inputs, int64_t chunk) {
  const int64_t batch = inputs.q.dim(0), seq = inputs.q.dim(1);
  const Chunks chunks(batch, seq, std::min(chunk, seq));
  DeltaChunk all{chunks.vectors(inputs.q),
                 chunks.vectors(inputs.k),
                 chunks.vectors(inputs.v),
                 chunks.numbers(inputs.g),
                 chunks.numbers(inputs.beta),
                 {},
                 {},
                 {}};
  ChunkStates states{inputs.state, {}};
  if (inputs.length.defined()) {
    all.valid = chunks.rows(first_positions(inputs.length, seq));
    states.kept = inputs.state;
  }
  if (inputs.segments.defined()) {
    all.segments = chunks.rows(inputs.segments);
    all.before = segments_before(all.segments);
  }
  const std::pair<Value DeltaChunk::*, const char*> parts[] = {{&DeltaChunk::q, "q"},
                                                               {&DeltaChunk::k, "k"},
                                                               {&DeltaChunk::v, "v"},
                                                               {&DeltaChunk::g, "g"},
                                                               {&DeltaChunk::beta, "beta"},
                                                               {&DeltaChunk::valid, "valid"},
                                                               {&DeltaChunk::segments, "segments"},
                                                               {&DeltaChunk::before, "before"}};
  const auto after = [](const ChunkStates& end) {
    return end.kept.defined() ? end.kept : end.state;
  };
  if (chunks.count() == 1) {
    DeltaChunk only;
    for (const auto& [part, name] : parts) {
      if ((all.*part).defined()) only.*part = single(all.*part);
    }
    const Value out = run_chunk(only, states);
    return {chunks.joined(graph::reshape(out, out.shape().with_front(1))), after(states)};
  }
  const auto body = std::make_shared<graph::Graph>("delta_chunk");
  graph::AxisSet axes; // a state varies over the ranks over which any input varies
  for (const auto& [part, name] : parts) {
    if ((all.*part).defined()) axes = axes.with((all.*part).type().axes);
  }
  std::vector<Value> carry, stacks;
  const auto state_input = [&](const char* name, Value first) {
    carry.push_back(first);
    return body->input(name, {first.shape(), first.dtype(), axes.with(first.type().axes)});
  };
  ChunkStates inner{state_input("state", states.state), {}};
  if (states.kept.defined()) inner.kept = state_input("kept", states.kept);
  DeltaChunk one;
  for (const auto& [part, name] : parts) {
    const Value& stack = all.*part;
    if (!stack.defined()) continue;
    one.*part = body->input(name, {stack.shape().without(0), stack.dtype(), stack.type().axes});
    stacks.push_back(stack);
  }
  const Value out = run_chunk(one, inner);
  body->output("state", inner.state);
  if (inner.kept.defined()) body->output("kept", inner.kept);
  body->output("out", out);
  const graph::ScanResult result = graph::scan(body, carry, stacks, {}, chunks.count());
  return {chunks.joined(result.stacked[0]), result.carry.back()};
}

graph::Value unit_rows(graph::Value x) {
  const Value squares = graph::sum(graph::multiply(x, x), {x.rank() - 1}, true);
  return graph::multiply(x, graph::rsqrt(graph::add(squares, graph::scalar(*x.graph, 1e-6f))));
}

graph::Value causal_convolution(graph::Value x, graph::Value weight, graph::Value segments) {
  const int64_t batch = x.dim(0), width = weight.dim(1), seq = x.dim(1) - width + 1,
                channels = x.dim(2);
  Value made;
  for (int64_t tap = 0; tap < width; ++tap) {
    Value rows = graph::slice_axis(x, 1, tap, tap + seq);
    const int64_t back = width - 1 - tap;
    if (segments.defined() && back > 0) { // rows of another text are 0
      const int64_t own = std::max<int64_t>(seq - back, 0);
      std::vector<Value> seen = {graph::full(*x.graph, {batch, seq - own}, 1.0f)};
      if (own > 0) {
        seen.push_back(equal_segments(graph::slice_axis(segments, 1, back, seq),
                                      graph::slice_axis(segments, 1, 0, own)));
      }
      rows = graph::multiply(rows, graph::reshape(graph::concat(seen, 1), {batch, seq, 1}));
    }
    const Value part = graph::multiply(
        rows, graph::reshape(graph::slice_axis(weight, 1, tap, tap + 1), {channels}));
    made = made.defined() ? graph::add(made, part) : part;
  }
  return made;
}

} // namespace dllm::model

// Rows of logits: the head of a language model, rows of a loss, rows of token statistics.

#include "pjrt/lower/head.h"

#include "graph/ops/build.h"

#include <algorithm>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

constexpr int64_t kLogits = int64_t{1} << 24; // of one part: 64 MiB
constexpr int64_t kLanes = 128;               // widths are multiples of it

} // namespace

Head::Head(const HeadOperands& at, std::span<const Value> inputs)
    : weight(inputs[1]), softcap(at.softcap) {
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
  Value y = dot(x, transpose(widen_weight(weight, {}), {1, 0}));
  if (scale.defined()) y = multiply(y, scale);
  if (bias.defined()) y = add(y, bias);
  return graph::softcap(y, static_cast<float>(softcap));
}

Value Head::input_grad(Value d) const {
  return dot(scale.defined() ? multiply(d, scale) : d, widen_weight(weight, {}));
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

using graph::Value;
using namespace graph::ops;

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

} // namespace dllm::pjrt

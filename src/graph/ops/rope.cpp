// rope: rotates pairs of the first `rotary` dims by position * inv_freq (Su et al. 2021). The
// gradient rotates by the negative angle.

#include "graph/ops/build.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types rope_types(const OpCall& call) {
  expect_inputs(call, 3);
  expect_dtype(call, 0, "x", {DType::f32});
  expect_rank(call, 0, "x", 4);
  const Shape& x = call.inputs[0].shape;
  expect_dtype(call, 1, "positions", {DType::i32});
  expect_shape(call, 1, "positions", Shape{x.dim(0), x.dim(1)});
  expect_dtype(call, 2, "inv_freq", {DType::f32});
  expect_rank(call, 2, "inv_freq", 1);
  const int64_t rotary = 2 * call.inputs[2].shape.dim(0);
  if (rotary > x.dim(3))
    fail_op(call, fmt::format("{} dims turn, but head_dim is {}", rotary, x.dim(3)));
  return {call.inputs[0]};
}

std::vector<Value> rope_vjp(const VjpCall& call) {
  Attributes attributes = call.node.attributes;
  attributes.set("inverse", !attributes.flag("inverse"));
  return {apply("rope", {call.grads[0], call.inputs[1], call.inputs[2]}, attributes), {}, {}};
}

// The two members of every pair, each (batch, seq, heads, half).
std::pair<Value, Value> pairs(Value turning, int64_t half, bool interleaved) {
  if (!interleaved)
    return {slice_axis(turning, 3, 0, half), slice_axis(turning, 3, half, 2 * half)};
  const Shape flat = turning.shape().with_dim(3, half);
  std::vector<int64_t> split = flat.dims();
  split.push_back(2);
  const Value cut = reshape(turning, Shape(split));
  return {reshape(slice_axis(cut, 4, 0, 1), flat), reshape(slice_axis(cut, 4, 1, 2), flat)};
}

Value join(Value a, Value b, bool interleaved) {
  if (!interleaved) return concat({a, b}, 3);
  std::vector<int64_t> wide = a.shape().dims();
  wide.push_back(1);
  const Shape column(wide);
  const Value both = concat({reshape(a, column), reshape(b, column)}, 4);
  return reshape(both, a.shape().with_dim(3, 2 * a.dim(3)));
}

std::vector<Value> rope_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  const Value x = inputs[0];
  const int64_t batch = x.dim(0), seq = x.dim(1), half = inputs[2].dim(0), rotary = 2 * half;
  const bool interleaved = node.attributes.flag("interleaved");
  const Value position = reshape(convert(inputs[1], DType::f32), Shape{batch, seq, 1, 1});
  const Value angle = multiply(position, inputs[2]); // (batch, seq, 1, half)
  const Value amplitude = full_like(angle, node.attributes.number("amplitude"));
  const Value c = multiply(cos(angle), amplitude);
  Value s = multiply(sin(angle), amplitude);
  if (node.attributes.flag("inverse")) s = negate(s);
  const auto [a, b] = pairs(slice_axis(x, 3, 0, rotary), half, interleaved);
  const Value turned = join(subtract(multiply(a, c), multiply(b, s)),
                            add(multiply(b, c), multiply(a, s)), interleaved);
  if (rotary == x.dim(3)) return {turned};
  return {concat({turned, slice_axis(x, 3, rotary, x.dim(3))}, 3)};
}

constexpr OpDef kRopeOps[] = {{.name = "rope",
                               .infer = rope_types,
                               .vjp = rope_vjp,
                               .decompose = rope_plain,
                               .repeat = Repeat::cheap}};

} // namespace

namespace ops {
std::span<const OpDef> rope_ops() {
  return kRopeOps;
}
} // namespace ops

Value rope(Value x, Value positions, Value inv_freq, bool interleaved, float amplitude) {
  if (x.rank() == 4 && positions.rank() == 1)
    positions = broadcast(positions, Shape{x.dim(0), positions.dim(0)});
  return apply("rope", {x, positions, inv_freq},
               {{"interleaved", interleaved},
                {"amplitude", static_cast<double>(amplitude)},
                {"inverse", false}});
}

} // namespace dllm::graph

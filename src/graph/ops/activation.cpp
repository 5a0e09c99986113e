// activation: act(x); gated_activation: act(gate) * up (Shazeer 2020).

#include "graph/ops/build.h"

#include "base/error.h"
#include "base/named_table.h"

namespace dllm::graph {
namespace {

using namespace ops;

Value silu_slope(Value x, Value one) {
  const Value s = logistic(x);
  return multiply(s, add(one, multiply(x, subtract(one, s))));
}

// Phi(x) + x phi(x)
Value gelu_slope(Value x, Value one) {
  constexpr double kInverseSqrt2 = 0.70710678118654752440, kInverseSqrt2Pi = 0.39894228040143267794;
  const Value half = full_like(x, 0.5);
  const Value phi =
      multiply(exp(negate(multiply(half, multiply(x, x)))), full_like(x, kInverseSqrt2Pi));
  const Value cdf = multiply(half, add(one, erf(multiply(x, full_like(x, kInverseSqrt2)))));
  return add(cdf, multiply(x, phi));
}

Value gelu_tanh_slope(Value x, Value one) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715;
  const Value half = full_like(x, 0.5), c = full_like(x, kSqrt2OverPi);
  const Value square = multiply(x, x);
  const Value inner = multiply(c, add(x, multiply(multiply(square, x), full_like(x, kCubic))));
  const Value slope = multiply(c, add(one, multiply(square, full_like(x, 3 * kCubic))));
  const Value t = tanh(inner);
  const Value bend = multiply(multiply(half, x), multiply(subtract(one, multiply(t, t)), slope));
  return add(multiply(half, add(one, t)), bend);
}

struct ActivationForm {
  const char* name;
  Value (*plain)(Value x);            // act(x) of primitive operations
  Value (*slope)(Value x, Value one); // its derivative
};

constexpr ActivationForm kForms[] = {
    {"silu", silu, silu_slope},
    {"gelu", [](Value x) { return gelu(x, false); }, gelu_slope},
    {"gelu_tanh", [](Value x) { return gelu(x, true); }, gelu_tanh_slope},
    {"relu", [](Value x) { return maximum(x, full_like(x, 0)); },
     [](Value x, Value) { return convert(greater(x, full_like(x, 0)), DType::f32); }},
};

const ActivationForm& activation_of(const Attributes& attributes) {
  return need_named(kForms, attributes.text("kind"), &ActivationForm::name,
                    {"activation", "", "", Code::invalid_argument});
}

Value plain_activation(Value x, const Node& node) {
  return activation_of(node.attributes).plain(x);
}

Value slope(Value x, const Node& node) {
  return activation_of(node.attributes).slope(x, full_like(x, 1));
}

// Checks that the inputs, called by `names` in errors, have one shape.
void expect_activation(const OpCall& call, std::initializer_list<const char*> names) {
  expect_inputs(call, names.size());
  size_t i = 0;
  for (const char* name : names) {
    expect_dtype(call, i, name, {DType::f32});
    if (!(call.inputs[i++].shape == call.inputs[0].shape))
      fail_op(call, types_text(call.inputs) + " differ");
  }
  activation_of(call.attributes);
}

Types activation_types(const OpCall& call) {
  expect_activation(call, {"x"});
  return {call.inputs[0]};
}

Types activation_grad_types(const OpCall& call) {
  expect_activation(call, {"x", "dy"});
  return {call.inputs[0]};
}

Types gated_activation_types(const OpCall& call) {
  expect_activation(call, {"gate", "up"});
  return {call.inputs[0]};
}

Types gated_activation_grad_types(const OpCall& call) {
  expect_activation(call, {"gate", "up", "dy"});
  return {call.inputs[0], call.inputs[0]};
}

std::vector<Value> activation_vjp(const VjpCall& call) {
  return {apply("activation_grad", {call.inputs[0], call.grads[0]}, call.node.attributes)};
}

std::vector<Value> gated_activation_vjp(const VjpCall& call) {
  return apply_all("gated_activation_grad", {call.inputs[0], call.inputs[1], call.grads[0]},
                   call.node.attributes);
}

std::vector<Value> activation_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  return {plain_activation(inputs[0], node)};
}

std::vector<Value> activation_grad_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  return {multiply(inputs[1], slope(inputs[0], node))};
}

std::vector<Value> gated_activation_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  return {multiply(plain_activation(inputs[0], node), inputs[1])};
}

std::vector<Value> gated_activation_grad_plain(Graph&, const Node& node,
                                               std::span<const Value> inputs) {
  const Value gate = inputs[0], up = inputs[1], dy = inputs[2];
  return {multiply(multiply(dy, up), slope(gate, node)),
          multiply(dy, plain_activation(gate, node))};
}

constexpr OpDef kActivationOps[] = {
    {.name = "activation",
     .infer = activation_types,
     .vjp = activation_vjp,
     .decompose = activation_plain,
     .repeat = Repeat::cheap},
    {.name = "activation_grad", .infer = activation_grad_types, .decompose = activation_grad_plain},
    {.name = "gated_activation",
     .infer = gated_activation_types,
     .vjp = gated_activation_vjp,
     .decompose = gated_activation_plain,
     .repeat = Repeat::cheap},
    {.name = "gated_activation_grad",
     .infer = gated_activation_grad_types,
     .decompose = gated_activation_grad_plain},
};

} // namespace

namespace ops {
std::span<const OpDef> activation_ops() {
  return kActivationOps;
}
} // namespace ops

Value activation(Value x, const std::string& kind) {
  return apply("activation", {x}, {{"kind", kind}});
}

Value gated_activation(Value gate, Value up, const std::string& kind) {
  return apply("gated_activation", {gate, up}, {{"kind", kind}});
}

} // namespace dllm::graph

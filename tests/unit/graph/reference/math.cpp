// Elementwise operations.

#include "unit/graph/reference/arrays.h"

#include "base/error.h"
#include "graph/op.h"

#include <algorithm>
#include <cmath>

namespace dllm::graph::test {
namespace {

double erf_inverse(double x) {
  if (std::abs(x) >= 1) return std::abs(x) == 1 ? std::copysign(INFINITY, x) : NAN;
  // Winitzki's closed form as a start, then Newton.
  const double a = 0.147, l = std::log1p(-x * x), b = 2 / (M_PI * a) + l / 2;
  double y = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), x);
  for (int i = 0; i < 8; ++i) y -= (std::erf(y) - x) * std::sqrt(M_PI) / 2 * std::exp(y * y);
  return y;
}

struct Unary {
  const char* name;
  double (*fn)(double);
};

constexpr Unary kUnary[] = {
    {"negate", [](double x) { return -x; }},
    {"absolute", [](double x) { return std::abs(x); }},
    {"sign", [](double x) { return std::isnan(x) ? x : double((x > 0) - (x < 0)); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"expm1", [](double x) { return std::expm1(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"logistic", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"erf", [](double x) { return std::erf(x); }},
    {"erf_inv", erf_inverse},
    {"floor", [](double x) { return std::floor(x); }},
    {"round", [](double x) { return std::nearbyint(x); }},
    {"is_finite", [](double x) { return double(std::isfinite(x)); }},
    {"logical_not", [](double x) { return 1 - x; }},
};

Results op_unary(const LocalCall& call) {
  Array y{call.result(), call.in[0]->data};
  for (const Unary& unary : kUnary) {
    if (std::string_view(call.node.op->name) != unary.name) continue;
    for (double& v : y.data) v = wrap(y.type.dtype, unary.fn(v));
  }
  return {y};
}

double whole(std::string_view op, DType dtype, double dx, double dy) {
  const auto x = static_cast<int64_t>(dx), y = static_cast<int64_t>(dy);
  const auto ux = static_cast<uint32_t>(x), uy = static_cast<uint32_t>(y);
  int64_t z = 0;
  if (op == "add")
    z = x + y;
  else if (op == "subtract")
    z = x - y;
  else if (op == "multiply")
    z = static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  else if (op == "divide")
    z = y == 0 ? 0 : x / y;
  else if (op == "remainder")
    z = y == 0 ? x : x % y;
  else if (op == "minimum")
    z = std::min(x, y);
  else if (op == "maximum")
    z = std::max(x, y);
  else if (op == "logical_and")
    z = ux & uy;
  else if (op == "logical_or")
    z = ux | uy;
  else if (op == "logical_xor")
    z = ux ^ uy;
  else if (op == "shift_left")
    z = uy >= 32 ? 0 : ux << uy;
  else if (op == "shift_right_logical")
    z = uy >= 32 ? 0 : ux >> uy;
  // Bits, not values, wrap: back through 32 bits.
  const auto bits = static_cast<uint32_t>(z);
  if (dtype == DType::u8) return static_cast<double>(static_cast<uint8_t>(bits));
  return dtype == DType::i32 ? static_cast<double>(static_cast<int32_t>(bits))
                             : static_cast<double>(bits);
}

double real(std::string_view op, double x, double y) {
  if (op == "add") return x + y;
  if (op == "subtract") return x - y;
  if (op == "multiply") return x * y;
  if (op == "divide") return x / y;
  if (op == "remainder") return std::fmod(x, y);
  if (op == "minimum") return pick(x, y, x < y);
  if (op == "maximum") return pick(x, y, x > y);
  if (op == "power") return std::pow(x, y);
  fail(Code::unimplemented, "oracle: {} of floats", op);
}

Results op_binary(const LocalCall& call) {
  Array z = empty(call.result());
  const std::string_view op = call.node.op->name;
  for (size_t i = 0; i < z.data.size(); ++i) {
    const double x = call.in[0]->data[i], y = call.in[1]->data[i];
    z.data[i] = is_float(z.type.dtype) ? real(op, x, y) : whole(op, z.type.dtype, x, y);
  }
  return {z};
}

bool holds(std::string_view op, double x, double y) {
  if (op == "equal") return x == y;
  if (op == "not_equal") return x != y;
  if (op == "less") return x < y;
  if (op == "less_equal") return x <= y;
  if (op == "greater") return x > y;
  return x >= y;
}

Results op_compare(const LocalCall& call) {
  Array z = empty(call.result());
  for (size_t i = 0; i < z.data.size(); ++i) {
    z.data[i] = holds(call.node.op->name, call.in[0]->data[i], call.in[1]->data[i]);
  }
  return {z};
}

Results op_select(const LocalCall& call) {
  Array z = empty(call.result());
  for (size_t i = 0; i < z.data.size(); ++i) {
    z.data[i] = (call.in[0]->data[i] != 0 ? call.in[1] : call.in[2])->data[i];
  }
  return {z};
}

Results op_clamp(const LocalCall& call) {
  Array z = empty(call.result());
  for (size_t i = 0; i < z.data.size(); ++i) {
    const double low = call.in[0]->data[i], x = call.in[1]->data[i], high = call.in[2]->data[i];
    const double raised = pick(x, low, x > low);
    z.data[i] = pick(raised, high, raised < high);
  }
  return {z};
}

constexpr Entry kTable[] = {
    {"add", op_binary},
    {"subtract", op_binary},
    {"multiply", op_binary},
    {"divide", op_binary},
    {"remainder", op_binary},
    {"minimum", op_binary},
    {"maximum", op_binary},
    {"power", op_binary},
    {"logical_and", op_binary},
    {"logical_or", op_binary},
    {"logical_xor", op_binary},
    {"shift_left", op_binary},
    {"shift_right_logical", op_binary},
    {"equal", op_compare},
    {"not_equal", op_compare},
    {"less", op_compare},
    {"less_equal", op_compare},
    {"greater", op_compare},
    {"greater_equal", op_compare},
    {"select", op_select},
    {"clamp", op_clamp},
};

} // namespace

LocalOp find_math_op(std::string_view op) {
  for (const Unary& unary : kUnary) {
    if (unary.name == op) return op_unary;
  }
  return find_entry(kTable, op);
}

} // namespace dllm::graph::test

// Elementwise operations.

#include "unit/graph/cases/cases.h"

#include <cmath>

namespace dllm::graph::test {
namespace {

struct UnaryCase {
  const char* op;
  Value (*fn)(Value);
  double low, high;
};

} // namespace

void add_elementwise(Cases& c) {
  constexpr UnaryCase kUnary[] = {
      {"negate", negate, -2, 2}, {"absolute", absolute, -2, 2}, {"sign", sign, -2, 2},
      {"exp", exp, -3, 3},       {"expm1", expm1, -2, 2},       {"log", log, 0.1, 4},
      {"log1p", log1p, -0.8, 3}, {"tanh", tanh, -3, 3},         {"logistic", logistic, -4, 4},
      {"sqrt", sqrt, 0.1, 4},    {"rsqrt", rsqrt, 0.2, 4},      {"sin", sin, -4, 4},
      {"cos", cos, -4, 4},       {"erf", erf, -2, 2},           {"erf_inv", erf_inv, -0.95, 0.95},
      {"floor", floor, -4, 4},   {"round", round, -4, 4},       {"is_finite", is_finite, -1, 1},
  };
  for (const UnaryCase& u : kUnary) {
    c.add(u.op, "", [&](B& b) { return Values{u.fn(b.f({3, 37}, u.low, u.high))}; });
  }
  c.add("negate", "i32", [](B& b) {
    return Values{negate(b.i({7}, -9, 9)), absolute(b.i({7}, -9, 9)), sign(b.i({7}, -2, 2))};
  });
  c.add("round", "ties", [](B& b) {
    return Values{round(
        b.given(Tensor::from(Shape{6}, std::vector<float>{0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 3.0f})))};
  });
  c.add("is_finite", "special", [](B& b) {
    return Values{is_finite(
        b.given(Tensor::from(Shape{4}, std::vector<float>{INFINITY, -INFINITY, NAN, 1})))};
  });
  c.add("logical_not", "", [](B& b) { return Values{logical_not(b.u8({5, 7}))}; });

  using Binary = Value (*)(Value, Value);
  const std::pair<const char*, Binary> numbers[] = {
      {"add", add},        {"subtract", subtract},   {"multiply", multiply},
      {"divide", divide},  {"remainder", remainder}, {"minimum", minimum},
      {"maximum", maximum}};
  for (const auto& [op, fn] : numbers) {
    const Binary call = fn;
    c.add(op, "f32", [&](B& b) {
      return Values{call(b.f({3, 1, 37}, 0.6, 3), b.f({5, 1}, 0.7, 2))};
    });
    c.add(op, "i32", [&](B& b) { return Values{call(b.i({40}, -9, 9), b.i({40}, -2, 3))}; });
    c.add(op, "i32 wraps", [&](B& b) {
      return Values{
          call(b.ints({3}, {2147483647, -2147483647 - 1, 65537}), b.ints({3}, {2, 3, 65537}))};
    });
    c.add(op, "u32", [&](B& b) { return Values{call(b.u32({40}), b.u32({40}))}; });
  }
  c.add("power", "", [](B& b) { return Values{power(b.f({3, 7}, 0.2, 3), b.f({7}, -2, 2))}; });
  const std::pair<const char*, Binary> bits[] = {
      {"logical_and", logical_and}, {"logical_or", logical_or}, {"logical_xor", logical_xor}};
  for (const auto& [op, fn] : bits) {
    const Binary call = fn;
    c.add(op, "", [&](B& b) {
      return Values{call(b.u8({5, 7}), b.u8({7})), call(b.i({9}, -99, 99), b.i({9}, -99, 99)),
                    call(b.u32({9}), b.u32({9}))};
    });
  }
  for (const auto& [op, fn] : {std::pair<const char*, Binary>{"shift_left", shift_left},
                               {"shift_right_logical", shift_right_logical}}) {
    const Binary call = fn;
    c.add(op, "", [&](B& b) {
      const Value by = b.ints({5}, {0, 1, 9, 31, 32});
      return Values{call(b.i({5}, -99, 99), by), call(b.u32({5}), bitcast(by, DType::u32))};
    });
  }
  const std::pair<const char*, Binary> relations[] = {
      {"equal", equal},           {"not_equal", not_equal}, {"less", less},
      {"less_equal", less_equal}, {"greater", greater},     {"greater_equal", greater_equal}};
  for (const auto& [op, fn] : relations) {
    const Binary call = fn;
    c.add(op, "", [&](B& b) {
      return Values{call(b.i({40}, 0, 3), b.i({40}, 0, 3)), call(b.f({5, 3}), b.f({3})),
                    call(b.u32({9}), b.u32({9})), call(b.u8({9}), b.u8({9}))};
    });
  }
  c.add("select", "", [](B& b) {
    return Values{select(b.u8({3, 1}), b.f({3, 5}), b.f({5})),
                  select(b.u8({4}), b.i({4}, 0, 9), b.i({4}, 0, 9))};
  });
  c.add("clamp", "", [](B& b) {
    return Values{clamp(b.f({}, -1, -0.5), b.f({3, 7}), b.f({7}, 0.5, 1))};
  });
}

} // namespace dllm::graph::test

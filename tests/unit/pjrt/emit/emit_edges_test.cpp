// Where compilers differ from each other and from plain C: ends of ranges, NaN, ties, indices
// outside. What the CPU engine gives is what every engine gives.

#include "base/random.h"
#include "graph/engine.h"
#include "graph/ops.h"
#include "pjrt/engine.h"
#include "unit/cpu/run_graph.h"
#include "unit/pjrt/emit/run_emitted.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace dllm::pjrt {
namespace {

using graph::Graph;
using graph::Value;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kLow = std::numeric_limits<int32_t>::min();
constexpr int32_t kHigh = std::numeric_limits<int32_t>::max();

template <class T> Tensor list(std::vector<T> values) {
  return Tensor::from(Shape{static_cast<int64_t>(values.size())}, values);
}

// A graph whose inputs are given with their numbers.
struct Given {
  Graph graph{"edges"};
  std::vector<Tensor> inputs;

  Value in(const Tensor& tensor) {
    inputs.push_back(tensor);
    return graph.input("x" + std::to_string(inputs.size()), tensor.dtype(), tensor.shape());
  }
  template <class T> Value in(std::vector<T> values) { return in(list(std::move(values))); }
  void out(Value y) { graph.output("y" + std::to_string(graph.outputs().size()), y); }
};

// Equal numbers; NaN equals NaN, and floats may differ by `tolerance` relative to 1 + |y|.
void expect_same(const Tensor& got, const Tensor& wanted, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  ASSERT_EQ(got.dtype(), wanted.dtype()) << what;
  const Tensor x = got.to(DType::f64), y = wanted.to(DType::f64);
  for (int64_t i = 0; i < x.count(); ++i) {
    const double a = x.as<double>()[static_cast<size_t>(i)];
    const double b = y.as<double>()[static_cast<size_t>(i)];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    EXPECT_NEAR(a, b, tolerance * (1 + std::fabs(b))) << what << " element " << i;
  }
}

class EmitEdges : public OnPlugins {
protected:
  void check(const Given& given, double tolerance = 0) {
    const auto source = std::shared_ptr<const Graph>(&given.graph, [](const Graph*) {});
    const auto wanted = cpu::run_graph(*cpu::test_engine(1), source, given.inputs);
    const auto got = run_emitted(client(), given.graph, given.inputs);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i)
      expect_same(got[i], wanted[i], tolerance, given.graph.outputs()[i].name);
  }
};

TEST_P(EmitEdges, IntegersDivideByAnything) {
  Given g;
  const Value x = g.in<int32_t>({7, -7, 7, -7, 0, kLow, kLow, kLow, kHigh, 5});
  const Value y = g.in<int32_t>({2, 2, -2, 0, 0, -1, 0, 1, -1, kLow});
  const Value a = g.in<uint32_t>({7, 7, 0, 0xFFFFFFFFu, 0xFFFFFFFFu});
  const Value b = g.in<uint32_t>({2, 0, 0, 0xFFFFFFFFu, 3});
  for (const auto& fn : {graph::divide, graph::remainder}) {
    g.out(fn(x, y));
    g.out(fn(a, b));
    for (int32_t by : {0, -1, 1, 3, -3}) g.out(fn(x, graph::scalar_i32(g.graph, by)));
  }
  check(g);
}

TEST_P(EmitEdges, ShiftsByAnything) {
  Given g;
  const Value x = g.in<int32_t>({-1, -1, 5, kLow, 1, 1, 1}),
              y = g.in<int32_t>({0, 31, 32, 1, -1, 64, kLow});
  for (const auto& fn : {graph::shift_left, graph::shift_right_logical}) {
    g.out(fn(x, y));
    g.out(fn(graph::bitcast(x, DType::u32), graph::bitcast(y, DType::u32)));
    for (int32_t by : {0, 5, 31, 32, -1}) g.out(fn(x, graph::scalar_i32(g.graph, by)));
  }
  check(g);
}

TEST_P(EmitEdges, ConversionsSaturate) {
  Given g;
  const Value x =
      g.in<float>({0.9f,          -0.9f,         -1.5f,          126.99f, 127.5f, 128,  -128.5f,
                   -129,          254.9f,        255.5f,         256,     3e9f,   5e9f, -3e9f,
                   2147483648.0f, 2147483520.0f, -2147483648.0f, kInf,    -kInf,  kNan, 1e38f});
  for (DType to : {DType::i32, DType::u32, DType::u8, DType::i8, DType::bf16}) {
    g.out(graph::convert(x, to));
    if (to != DType::bf16) g.out(graph::convert(graph::convert(x, DType::bf16), to));
  }
  const Value i = g.in<int32_t>({0, 1, -1, 255, 256, 300, -129, kLow, kHigh});
  for (DType to : {DType::f32, DType::u32, DType::u8, DType::i8}) g.out(graph::convert(i, to));
  const Value u = g.in<uint32_t>({0, 0x80000000u, 0xFFFFFFFFu, 511});
  for (DType to : {DType::f32, DType::i32, DType::u8, DType::i8}) g.out(graph::convert(u, to));
  const Value s = g.in<int8_t>({-128, -1, 127});
  for (DType to : {DType::f32, DType::i32, DType::u32, DType::u8, DType::bf16})
    g.out(graph::convert(s, to));
  check(g);
}

TEST_P(EmitEdges, NanIsPassedOnAndIsTheLargest) {
  Given g;
  const Value x = g.in<float>({1, kNan, 3, -kInf, 3, kNan, 0.0f, -0.0f}),
              y = g.in<float>({kNan, 1, 3, kNan, kInf, kNan, -0.0f, 0.0f});
  g.out(minimum(x, y));
  g.out(maximum(x, y));
  g.out(clamp(y, x, graph::scalar(g.graph, 2)));
  g.out(clamp(graph::scalar(g.graph, 0), x, graph::scalar(g.graph, 2)));
  for (const Value& v : {x, y, g.in<float>({-kInf, -kInf}), g.in<float>({2, 5, 5, 1})}) {
    g.out(max(v, {0}));
    g.out(min(v, {0}));
    g.out(argmax(v, 0));
  }
  for (const auto& fn : {graph::equal, graph::not_equal, graph::less, graph::less_equal,
                         graph::greater, graph::greater_equal})
    g.out(fn(x, y));
  g.out(argmax(g.in<int32_t>({kLow, kLow, kLow}), 0));
  g.out(graph::sign(x));
  g.out(graph::round(g.in<float>({0.5f, 1.5f, -2.5f, kNan, kInf, 8388609.0f, -0.4f})));
  g.out(remainder(g.in<float>({5.5f, -5.5f, 5.5f, 1e30f, kInf, 3}),
                  g.in<float>({2, 2, -2, 3, 2, 0})));
  g.out(power(g.in<float>({0, 0, -2, -8, 2, kInf}), g.in<float>({0, -1, 3, 0.5f, -kInf, 0})));
  check(g, 1e-6);
}

// The engine passes the compiler the options that the text needs.
TEST_P(EmitEdges, TheEngineKeepsNan) {
  Options options(graph::engine_schema());
  options.set_str("plugin", path());
  options.set_str("pjrt.cache", "off");
  auto graph = std::make_shared<Graph>("nan");
  const Value x = graph->input("x", DType::f32, {3});
  graph->output("y", maximum(x, graph::scalar(*graph, 0)));
  const Tensor y = cpu::run_graph(*make_engine(options), graph, {list<float>({kNan, -1, 2})})[0];
  EXPECT_TRUE(std::isnan(y.as<float>()[0]));
  EXPECT_EQ(y.as<float>()[1], 0);
}

// Functions at the ends of their domains.
TEST_P(EmitEdges, FunctionsAtTheirEnds) {
  Given g;
  const Value x = g.in<float>({0.0f, -0.0f, 1, -1, 1.5f, -1.5f, kInf, -kInf, kNan, 1e-30f, 0.99999f,
                               -0.99999f, 88, -103, 20});
  for (const auto& fn : {graph::exp, graph::expm1, graph::log, graph::log1p, graph::tanh,
                         graph::logistic, graph::sqrt, graph::rsqrt, graph::erf, graph::erf_inv,
                         graph::floor, graph::absolute, graph::is_finite})
    g.out(fn(x));
  g.out(graph::negate(g.in<int32_t>({kLow, 1})));
  g.out(graph::absolute(g.in<int32_t>({kLow, -1})));
  check(g, 3e-6);
}

TEST_P(EmitEdges, OrderIsStable) {
  Given g;
  std::vector<float> many(700);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>((i * 37) % 19) - 9.0f;
  many[13] = many[400] = kNan;
  many[20] = -kNan;
  many[77] = -0.0f;
  many[5] = kInf;
  many[6] = -kInf;
  const Value x = g.in(Tensor::from(Shape{7, 100}, many));
  for (int64_t k : {1, 5, 100}) {
    const graph::TopK t = graph::top_k(x, k);
    g.out(t.values);
    g.out(t.indices);
  }
  for (bool descending : {false, true}) {
    const graph::TopK t = graph::sort(x, descending);
    g.out(t.values);
    g.out(t.indices);
  }
  const Value whole = g.in<int32_t>({3, -1, kLow, 0, -1, kHigh, 3, -7});
  for (bool descending : {false, true}) {
    const graph::TopK t = graph::sort(whole, descending);
    g.out(t.values);
    g.out(t.indices);
  }
  g.out(argmax(x, 0));
  g.out(argmax(x, 1));
  check(g);
}

// Duplicates and indices outside, by pairs (few rows) and by the table (many).
TEST_P(EmitEdges, LaterRowsWin) {
  for (int64_t m : {1, 2, 40, 256, 257, 600}) {
    Given g;
    std::vector<int32_t> at(static_cast<size_t>(m));
    std::vector<float> rows(static_cast<size_t>(m * 3));
    for (size_t i = 0; i < at.size(); ++i)
      at[i] = static_cast<int32_t>(random_bits_at({7, 9}, i) % 50) - 5;
    std::iota(rows.begin(), rows.end(), 1.0f);
    const Value x = g.in(Tensor(DType::f32, Shape{40, 3})), indices = g.in<int32_t>(at);
    const Value updates = g.in(Tensor::from(Shape{m, 3}, rows));
    g.out(scatter_set(x, indices, updates));
    g.out(scatter_add(x, indices, updates)); // whole numbers: any order gives the same
    g.out(scatter_set(convert(x, DType::bf16), indices, convert(updates, DType::bf16)));
    g.out(scatter_set(convert(x, DType::u8), indices, convert(updates, DType::u8)));
    g.out(take(x, indices));
    check(g);
  }
}

TEST_P(EmitEdges, RunningSumsOfAnyLength) {
  for (int64_t length : {1, 2, 64, 65, 300, 33000, 100000}) {
    Given g;
    std::vector<int32_t> values(static_cast<size_t>(length) * 2);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<int32_t>(random_bits_at({1, 2}, i) % 9) - 4;
    const Value x = g.in(Tensor::from(Shape{length, 2}, values));
    g.out(cumsum(x, 0)); // whole numbers, exact as floats too
    g.out(cumsum(convert(x, DType::f32), 0));
    if (length <= 300) g.out(cumsum(convert(reshape(x, {2, length}), DType::f32), 1));
    check(g);
  }
}

TEST_P(EmitEdges, RandomBitsAreOurs) {
  Given g;
  const Key key{0x12345678u, 0x9ABCDEF0u};
  const Value k = g.in<uint32_t>({key.hi, key.lo});
  const std::vector<Shape> shapes{{}, {1}, {5}, {3, 7, 11}, {1000}};
  for (const Shape& shape : shapes) {
    g.out(random_bits(k, shape));
    g.out(random_uniform(k, shape));
  }
  const auto got = run_emitted(client(), g.graph, g.inputs);
  for (size_t s = 0; s < shapes.size(); ++s) {
    std::vector<uint32_t> bits(static_cast<size_t>(shapes[s].count()));
    std::vector<float> uniform(bits.size());
    random_bits(key, bits);
    random_uniform(key, uniform);
    ASSERT_EQ(got[2 * s].shape(), shapes[s]);
    EXPECT_EQ(0, std::memcmp(got[2 * s].bytes(), bits.data(), bits.size() * 4)) << shapes[s].text();
    EXPECT_EQ(0, std::memcmp(got[2 * s + 1].bytes(), uniform.data(), bits.size() * 4));
  }
}

// Bytes that are no truth values stay what they are; those that are keep their number.
TEST_P(EmitEdges, BytesAndTruthValues) {
  Given g;
  const Value x = g.in<uint8_t>({0, 1, 2, 255}), y = g.in<uint8_t>({3, 0, 2, 1}),
              f = g.in<float>({1, 2, 3, 4});
  const Value less = graph::less(x, y), finite = graph::is_finite(f);
  g.out(logical_not(x));
  g.out(logical_and(x, y));
  g.out(select(x, f, graph::negate(f)));
  g.out(logical_not(less));
  g.out(logical_xor(logical_or(less, x), finite));
  g.out(convert(logical_and(less, finite), DType::f32));
  g.out(select(less, finite, logical_not(finite)));
  g.out(graph::concat({less, finite, x}, 0));
  g.out(graph::concat({less, finite}, 0));
  g.out(graph::reverse(
      graph::broadcast(graph::slice_axis(graph::reshape(less, {2, 2}), 0, 0, 1), {3, 2}), 1));
  g.out(graph::pad(less, {1}, {1}, graph::constant(g.graph, Tensor::scalar<uint8_t>(9))));
  g.out(graph::equal(less, finite));
  g.out(graph::take(less, g.in<int32_t>({3, 1})));
  check(g);
}

DLLM_ON_PLUGINS(EmitEdges);

} // namespace
} // namespace dllm::pjrt

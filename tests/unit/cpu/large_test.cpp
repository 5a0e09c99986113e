// Arrays large enough to be cut over threads and into chunks: against the oracle, and the same bits
// for 1, 2, 3 and 4 threads.

#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"
#include "unit/graph/reference_evaluator.h"

#include <cmath>
#include <cstring>
#include <functional>

namespace dllm::cpu {
namespace {

using graph::Graph;
using graph::Value;

Tensor random_ints(Shape shape, int32_t low, int32_t high, uint32_t state) {
  std::vector<int32_t> made(static_cast<size_t>(shape.count()));
  for (int32_t& x : made) {
    state = state * 1664525u + 1013904223u;
    x = low + static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(high - low));
  }
  return Tensor::from(std::move(shape), made);
}

struct LargeCase {
  std::string name;
  std::vector<Tensor> inputs;
  std::function<std::vector<Value>(const std::vector<Value>&)> build;
};

std::vector<LargeCase> cases() {
  const Tensor wide = random_tensor({241, 7, 131}, 1), rows = random_tensor({241, 1, 131}, 2);
  const Tensor columns = random_tensor({7, 1}, 3), flat = random_tensor({220003}, 4);
  const Tensor tall = random_tensor({331, 5, 171}, 5), table = random_tensor({211, 97}, 6);
  using In = const std::vector<Value>&;
  return {
      {"broadcasts",
       {wide, rows, columns},
       [](In v) {
         return std::vector{add(v[0], multiply(v[1], v[2])), select(less(v[0], v[2]), v[0], v[1])};
       }},
      {"functions",
       {flat},
       [](In v) {
         return std::vector{tanh(v[0]), is_finite(exp(v[0])), floor(v[0])};
       }},
      {"converts",
       {flat},
       [](In v) {
         const Value bits = convert(v[0], DType::bf16);
         return std::vector{convert(bits, DType::f32),
                            convert(multiply(v[0], graph::scalar(*v[0].graph, 99)), DType::i32)};
       }},
      {"long sums",
       {flat},
       [](In v) {
         return std::vector{sum(v[0], {0}), max(v[0], {0}), min(v[0], {0})};
       }},
      {"sums",
       {tall},
       [](In v) {
         return std::vector{sum(v[0], {0}), sum(v[0], {2}),    sum(v[0], {0, 2}),
                            sum(v[0], {1}), max(v[0], {0, 1}), sum(v[0], {0, 1, 2}, true)};
       }},
      {"moves",
       {tall, wide},
       [](In v) {
         const Value fill = graph::scalar(*v[0].graph, 7);
         return std::vector{transpose(v[0], {2, 0, 1}),
                            slice(v[0], {1, 1, 3}, {330, 4, 170}),
                            reverse(v[0], 0),
                            pad(v[1], {1, 0, 2}, {0, 3, 1}, fill),
                            graph::concat({v[1], v[1]}, 1),
                            broadcast(slice_axis(v[1], 1, 0, 1), {241, 9, 131})};
       }},
      {"along",
       {tall},
       [](In v) {
         return std::vector{cumsum(v[0], 0), argmax(v[0], 0), argmax(v[0], 2)};
       }},
      {"order",
       {wide},
       [](In v) {
         const auto top = top_k(v[0], 9);
         const auto all = sort(v[0], false);
         return std::vector{top.values, top.indices, all.values, all.indices};
       }},
      {"rows",
       {table, random_ints({2999}, -5, 220, 7), random_tensor({2999, 97}, 8)},
       [](In v) {
         return std::vector{take(v[0], v[1]), scatter_add(v[0], v[1], v[2]),
                            scatter_set(v[0], v[1], v[2])};
       }},
      {"random",
       {Tensor::from<uint32_t>({2}, std::vector<uint32_t>{7, 9})},
       [](In v) {
         return std::vector{graph::random_bits(v[0], {333, 1001})};
       }},
  };
}

class Large : public testing::TestWithParam<size_t> {};

TEST_P(Large, EqualsTheOracleOnAnyNumberOfThreads) {
  const LargeCase c = cases()[GetParam()];
  auto graph = std::make_shared<Graph>(c.name);
  std::vector<Value> values;
  for (const Tensor& input : c.inputs) {
    values.push_back(
        graph->input("x" + std::to_string(values.size()), input.dtype(), input.shape()));
  }
  for (const Value& y : c.build(values))
    graph->output("y" + std::to_string(graph->outputs().size()), y);
  const auto expected = graph::test::evaluate(*graph, c.inputs);
  const auto first = run_graph(*test_engine(1), graph, c.inputs);
  for (size_t o = 0; o < first.size(); ++o) {
    const std::string what = c.name + " " + std::to_string(o);
    if (expected[o].dtype() != DType::f64) {
      EXPECT_TRUE(same_bits(first[o], expected[o])) << what;
      continue;
    }
    const Tensor wide = first[o].to(DType::f64);
    const auto got = wide.as<double>(), exact = expected[o].as<double>();
    // Running sums round once per element.
    const double tolerance = c.name == "along" ? 1e-4 : c.name == "converts" ? 4e-3 : 2e-5;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], exact[i], tolerance * (1 + std::fabs(exact[i])))
          << what << " element " << i;
    }
  }
  for (int64_t threads : {2, 3, 4}) {
    EXPECT_TRUE(same_bits(run_graph(*test_engine(threads), graph, c.inputs), first))
        << threads << " threads";
  }
}

std::string case_name(const testing::TestParamInfo<size_t>& info) {
  std::string name = cases()[info.param].name;
  for (char& ch : name) ch = ch == ' ' ? '_' : ch;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Large, testing::Range(size_t{0}, cases().size()), case_name);

} // namespace
} // namespace dllm::cpu

#include "noise/loss/uniform_nelbo.h"

#include "cpu/engine.h"
#include "graph/engine.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::noise {
namespace {

// The bound of one token with probabilities p, by the graph.
double bound(std::vector<float> p, double alpha, int32_t noisy, int32_t clean) {
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  const auto graph = std::make_shared<graph::Graph>("bound");
  const auto k = static_cast<int64_t>(p.size());
  for (float& value : p) value = std::log(value);
  const UniformTerms terms = uniform_terms(alpha, k, noisy == clean);
  const std::vector<float> numbers = {terms.odds, terms.kept,  terms.ratio,
                                      terms.sum,  terms.clean, terms.base};
  const auto id = [&](int32_t token) {
    return graph::constant(*graph, Tensor::from(Shape{1}, std::vector<int32_t>{token}));
  };
  const graph::Value logits = graph::constant(*graph, Tensor::from(Shape{1, k}, p));
  const UniformRows rows{
      logits, id(noisy), id(clean),
      graph::constant(*graph, Tensor::from(Shape{1, kUniformTermCount}, numbers))};
  graph->output("bound", uniform_nelbo_of(logits, rows, k).bound);
  const std::vector<graph::BufferRef> none;
  const Tensor got = engine->compile(graph)->run(none).front()->read();
  return got.as<float>()[0] * uniform_weight(alpha, -1.0, k);
}

// The formula as it is printed (UDLM, equation 18), a sum over all tokens in double.
double by_hand(const std::vector<float>& p, double alpha, size_t noisy, size_t clean) {
  const auto k = static_cast<double>(p.size());
  const auto xb = [&](size_t j) { return (j == clean ? k * alpha : 0) + 1 - alpha; };
  const auto tb = [&](size_t j) { return k * alpha * static_cast<double>(p[j]) + 1 - alpha; };
  double sum = k / xb(noisy) - k / tb(noisy);
  for (size_t j = 0; j < p.size(); ++j)
    sum -= xb(j) / xb(noisy) * std::log(tb(noisy) * xb(j) / (tb(j) * xb(noisy)));
  return -1 / (k * alpha) * sum;
}

TEST(UniformNelbo, EqualsThePrintedSum) {
  const std::vector<float> p = {.7f, .2f, .1f};
  EXPECT_NEAR(by_hand(p, .5, 1, 0), .57148192, 1e-7); // computed independently
  for (const double alpha : {.1, .5, .9}) {
    for (int32_t z = 0; z < 3; ++z) {
      const double want = by_hand(p, alpha, static_cast<size_t>(z), 0);
      EXPECT_NEAR(bound(p, alpha, z, 0), want, 1e-5 * want + 1e-6) << alpha << " z " << z;
    }
  }
}

TEST(UniformNelbo, IsZeroWhereTheModelIsSure) {
  const float rest = 1e-9f;
  for (int32_t z = 0; z < 3; ++z) EXPECT_NEAR(bound({1, rest, rest}, .5, z, 0), 0, 1e-4);
}

} // namespace
} // namespace dllm::noise

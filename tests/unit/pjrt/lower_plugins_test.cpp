// Lowered operations through the compilers of plugins: against the CPU engine.

#include "unit/graph/case_builder.h"
#include "unit/graph/op_cases.h"
#include "unit/pjrt/lower_tools.h"
#include "unit/pjrt/run_emitted.h"

namespace dllm::pjrt {
namespace {

using graph::Value;
using graph::test::CaseBuilder;
using graph::test::OpCase;

class LowerOnPlugins : public OnPlugins {
protected:
  void SetUp() override {
    OnPlugins::SetUp();
    if (!IsSkipped()) client_ = client();
  }
  void check(const OpCase& c, double tolerance) {
    SCOPED_TRACE(c.label);
    expect_close(run_emitted(client_, *lower(*c.graph), c.inputs), run_on_cpu(c.graph, c.inputs),
                 tolerance, *c.graph, c.label);
  }
  std::shared_ptr<const Client> client_;
};

TEST_P(LowerOnPlugins, EveryFusedOperation) {
  for (OpCase& c : graph::test::op_cases()) {
    if (graph::find_op(c.op).decompose == nullptr) continue;
    if (!c.wrt.empty() && !c.grad_outputs.empty()) add_gradients(*c.graph, c.wrt, c.grad_outputs);
    check(c, 2e-5);
  }
}

TEST_P(LowerOnPlugins, AttentionInChunks) {
  for (bool causal : {false, true}) {
    CaseBuilder b("attention", causal ? "causal chunks" : "chunks");
    const Value q = b.f({2, 1300, 4, 8}), k = b.f({2, 1300, 2, 8}), v = b.f({2, 1300, 2, 8});
    graph::Mask mask = causal ? graph::Mask::causal() : graph::Mask::full();
    mask.and_segments(b.i({2, 1300}, 0, 3), b.i({2, 1300}, 0, 3));
    graph::AttentionOptions options;
    options.scale = 0.3f;
    options.empty_average = true;
    auto c = b.done({attention(q, k, v, mask, options)});
    add_gradients(*c.graph, c.wrt, c.grad_outputs);
    check(c, 2e-5);
  }
}

TEST_P(LowerOnPlugins, LossInTilesAndParts) {
  CaseBuilder b("linear_cross_entropy", "tiles");
  const Value x = b.f({2500, 8}), weight = b.f({20000, 8}), bias = b.f({20000});
  const Value targets = b.i({2500}, -100, 20000), count = b.ints({}, {1900});
  auto c = b.done({linear_cross_entropy(x, weight, bias, {}, targets, count)});
  add_gradients(*c.graph, c.wrt, c.grad_outputs);
  check(c, 2e-5);
}

TEST_P(LowerOnPlugins, SampledStatistics) {
  CaseBuilder b("token_statistics", "sampled");
  graph::TokenStatisticsInputs in;
  in.x = b.fixed({40, 6});
  in.weight = b.fixed({5000, 6});
  in.temperature = b.fixed({40}, 0.3, 1.5);
  in.top_k = b.i({40}, 0, 90);
  in.top_p = b.fixed({40}, 0.3, 1.3);
  in.uniform = b.fixed({40}, 0, 1);
  const graph::TokenStatistics made = token_statistics(in, 2);
  check(b.done({made.argmax, made.max_prob, made.log_sum_exp, made.entropy, made.top_ids,
                made.top_probs, made.draw, made.draw_prob},
               0),
        2e-5);
}

TEST_P(LowerOnPlugins, Experts) {
  CaseBuilder b("expert_linear", "tiles");
  const Value x = b.f({300, 16}), numbers = b.i({300, 4}, -1, 9), weight = b.f({8, 24, 16});
  auto c = b.done({expert_linear(x, numbers, weight)});
  add_gradients(*c.graph, c.wrt, c.grad_outputs);
  check(c, 2e-5);
}

DLLM_ON_PLUGINS(LowerOnPlugins);

} // namespace
} // namespace dllm::pjrt

// Lowered operations through the compilers of plugins: against the CPU engine.

#include "graph/passes.h"
#include "pjrt/engine.h"
#include "unit/graph/case_builder.h"
#include "unit/graph/op_cases.h"
#include "unit/pjrt/lower/code_cases.h"
#include "unit/pjrt/plugins.h"

#include <map>

namespace dllm::pjrt {
namespace {

using graph::Value;
using graph::test::CaseBuilder;
using graph::test::OpCase;

class LowerOnPlugins : public OnPlugins {
protected:
  void SetUp() override {
    OnPlugins::SetUp();
    if (IsSkipped()) return;
    Options options(graph::engine_schema());
    options.set_str("plugin", path());
    options.set_str("pjrt.cache", "off");
    engine_ = make_engine(options);
  }
  void check(const OpCase& c, double tolerance) {
    std::vector<graph::BufferRef> buffers;
    for (const Tensor& input : c.inputs) buffers.push_back(engine_->upload(input));
    std::vector<Tensor> results;
    for (const auto& buffer : engine_->compile(c.graph)->run(buffers))
      results.push_back(buffer->read());
    expect_close(results, run_on_cpu(c.graph, c.inputs), tolerance, *c.graph, c.label);
  }
  std::shared_ptr<graph::Engine> engine_;
};

// One program of many cases: a plugin's compiler takes longer to begin than to compile one.
void append(OpCase& all, const OpCase& c) {
  graph::Cloner cloner(*c.graph, *all.graph);
  for (const graph::GraphInput& input : c.graph->inputs()) {
    const std::string name = c.label + " " + input.name;
    cloner.map(input.value, all.graph->input(name, c.graph->type(input.value)));
  }
  for (size_t n = 0; n < c.graph->nodes().size(); ++n) cloner.node(static_cast<int32_t>(n));
  for (const graph::GraphOutput& output : c.graph->outputs())
    all.graph->output(c.label + " " + output.name, cloner.at(output.value));
  all.inputs.insert(all.inputs.end(), c.inputs.begin(), c.inputs.end());
}

TEST_P(LowerOnPlugins, EveryFusedOperation) {
  std::map<std::string, OpCase> by_op;
  for (OpCase& c : graph::test::op_cases()) {
    // A gradient that is an operation of its own is run by the operation it belongs to.
    if (graph::find_op(c.op).decompose == nullptr || c.op.ends_with("_grad")) continue;
    if (!c.wrt.empty() && !c.grad_outputs.empty()) add_gradients(*c.graph, c.wrt, c.grad_outputs);
    OpCase& all = by_op[c.op];
    if (all.graph == nullptr) all.graph = std::make_shared<graph::Graph>(c.op);
    append(all, c);
  }
  for (const auto& [op, all] : by_op) check(all, 2e-5);
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
  const Value top_k = b.i({40}, 0, 90), top_p = b.fixed({40}, 0.3, 1.3);
  in.filters = {{"top_k", top_k}, {"top_p", top_p}};
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

// Sums of at most 512 products; the compiler orders them in its own way.
TEST_P(LowerOnPlugins, WeightsInBlocks) {
  OpCase all;
  all.graph = std::make_shared<graph::Graph>("codes");
  all.label = "codes";
  for (const WeightFormat* format : block_formats()) append(all, code_case(*format));
  check(all, 2e-5);
}

// Eight layers of one scan: the device holds codes, and a wide matrix of a layer at a time.
TEST_P(LowerOnPlugins, CodesAreWidenedLayerByLayer) {
  constexpr int64_t kLayers = 8, kSize = 256;
  const WeightFormat& format = weight_format("nf4");
  const Tensor codes = coded(format, {kLayers, kSize, kSize});
  const auto layer = std::make_shared<graph::Graph>("layer");
  const Value h = layer->input("h", DType::f32, {4, kSize});
  const Value w = layer->input("w", {codes.shape().without(0), DType::u8, {}, &format});
  layer->output("h", tanh(linear(h, w)));
  OpCase c;
  c.label = "layers";
  c.graph = std::make_shared<graph::Graph>("layers");
  const Value x = c.graph->input("x", DType::f32, {4, kSize});
  const Value stack = c.graph->input("w", {codes.shape(), DType::u8, {}, &format});
  c.graph->output("y", graph::scan(layer, {x}, {stack}, {}, kLayers).carry[0]);
  add_gradients(*c.graph, {0}, {0});
  Tensor rows(DType::f32, {4, kSize});
  for (float& number : rows.mutable_as<float>()) number = 0.01f;
  c.inputs = {rows, codes};
  check(c, 2e-5);

  const graph::BufferRef held = engine_->upload_weight(codes, false);
  EXPECT_EQ(held->memory_bytes(), codes.byte_size()); // 36 bytes for 64 numbers
  EXPECT_EQ(held->read().format(), &format);
  const auto program = engine_->compile(c.graph);
  const graph::CompiledReport& made = program->plan().compiled;
  EXPECT_EQ(program->plan().input_bytes, rows.byte_size() + codes.byte_size());
  if (made.known && made.argument_bytes > 0) {
    EXPECT_LE(made.argument_bytes, rows.byte_size() + codes.byte_size() + 64);
    const int64_t wide = kSize * kSize * 4; // bytes of one layer in f32
    EXPECT_LE(made.temporary_bytes, 3 * wide) << "of " << kLayers * wide;
  }
}

DLLM_ON_PLUGINS(LowerOnPlugins);

} // namespace
} // namespace dllm::pjrt

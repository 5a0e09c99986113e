// What layer kinds declare of themselves, against the graphs they build; heads by name.

#include "../model_tools.h"
#include "graph/passes.h"
#include "model/layers/layer_kind.h"
#include "model/network/builder.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::model_options;
using test::small_config;
using test::small_engine;

TEST(LayerKinds, CostIsThatOfTheGraph) {
  constexpr int64_t kBatch = 2, kSeq = 8;
  for (const char* family : {"llama", "gpt2", "qwen2_moe", "qwen3_moe", "llada2_moe", "dllm_moe"}) {
    const auto model = sketch_model(small_engine(), config_from_json(small_config(family), "c"),
                                    weight_format(DType::f32));
    const ModelConfig& config = model->config();
    graph::Graph graph("cost");
    Builder builder(graph, *model);
    ForwardInputs inputs;
    inputs.ids = graph.input("ids", DType::i32, {kBatch, kSeq});
    graph.output("hidden", builder.forward(inputs).hidden);
    double flops = 0;
    for (const LayerRun& run : layer_runs(config)) {
      const LayerCost cost = layer_cost(config, run);
      flops +=
          static_cast<double>(run.count * kBatch * kSeq) * (cost.per_token + kSeq * cost.per_pair);
    }
    EXPECT_EQ(flops, graph::count_flops(graph)) << family;
  }
}

TEST(LayerKinds, AttentionAloneKeepsState) {
  const ModelConfig config = config_from_json(small_config("qwen3_moe"), "c");
  const std::vector<StateStack> stacks = state_stacks(config);
  ASSERT_EQ(stacks.size(), 2u);
  EXPECT_EQ(stacks[0].name, "keys");
  EXPECT_EQ(stacks[0].layers, (std::vector<int64_t>{0, 1, 2})); // across runs
  EXPECT_EQ(stacks[1].shape({2, 64}), (Shape{3 * 2 * 64, config.kv_size()}));
}

TEST(LayerKinds, AnUnknownOneIsNamedWithThoseThereAre) {
  Json config = small_config("llama");
  config["dllm"] = {{"mixers", {"attention", "no_such_kind", "attention"}}};
  test::expect_error(Code::invalid_argument,
                     "expected a list of 3 layer kinds; the names are attention",
                     [&] { config_from_json(config, "c"); });
}

TEST(Heads, AreFoundByName) {
  Json config = small_config("llama");
  config["dllm"] = {
      {"heads", {{"score", {{"rows", 1}}}, {"edit", {{"rows", 5}, {"softcap", 3.0}}}}}};
  const auto model = new_model(small_engine(), config, model_options());
  EXPECT_EQ(model->params().read("heads.score.weight").shape(), (Shape{1, 16}));
  graph::Graph graph("heads");
  Builder builder(graph, *model);
  EXPECT_EQ(builder.head().weight.shape(), (Shape{23, 16}));
  EXPECT_EQ(builder.head("edit").weight.shape(), (Shape{5, 16}));
  EXPECT_EQ(builder.head("edit").softcap, 3.0f);
  const graph::Value hidden = graph.input("hidden", DType::f32, {2, 3, 16});
  EXPECT_EQ(product(builder.head("score"), hidden).shape(), (Shape{2, 3, 1}));
  test::expect_error(Code::not_found, "no head named \"latent\"", [&] { builder.head("latent"); });
  EXPECT_EQ(config_from_json(config_to_json(model->config()), "c").other_heads.size(), 2u);
}

} // namespace
} // namespace dllm::model

// What families do beyond Llama: experts, layers of two kinds, windows, caps.

#include "../model_tools.h"
#include "graph/ops.h"
#include "model/families/family.h"
#include "model/layers/layer_kind.h"
#include "model/model.h"
#include "model/network/builder.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

ModelConfig with(Json config, const char* key, Json value) {
  config[key] = std::move(value);
  return config_from_json(config, "config.json");
}

TEST(Families, TheirOwnAttention) {
  const auto kind = [](const char* type) {
    return config_from_json(small_config(type), "config.json").attention;
  };
  EXPECT_EQ(kind("lladamoe"), AttentionKind::bidirectional);
  EXPECT_EQ(kind("dllm_moe"), AttentionKind::bidirectional);
  EXPECT_EQ(kind("llada2_moe"), AttentionKind::block_causal);
  EXPECT_EQ(kind("qwen3_moe"), AttentionKind::causal);
  EXPECT_EQ(kind("gemma2"), AttentionKind::causal);
  EXPECT_EQ(kind("gemma3_text"), AttentionKind::causal);
  const ModelConfig llada2 = config_from_json(small_config("llada2_moe"), "config.json");
  EXPECT_EQ(llada2.block_length, 32);
  EXPECT_EQ(llada2.shift, 0);
}

TEST(Families, DiffusionModelsMadeOfOthers) {
  Json sdar = small_config("qwen3");
  sdar.update({{"model_type", "sdar"}, {"block_size", 8}});
  const ModelConfig blocks = config_from_json(sdar, "config.json");
  EXPECT_EQ(blocks.attention, AttentionKind::block_causal);
  EXPECT_EQ(blocks.block_length, 8);
  EXPECT_TRUE(blocks.qk_norm);
  EXPECT_EQ(config_to_json(blocks)["architectures"][0], "SDARForCausalLM");
  Json rnd1 = small_config("qwen3_moe");
  rnd1["model_type"] = "rnd1";
  EXPECT_EQ(config_from_json(rnd1, "c").attention, AttentionKind::bidirectional);
  EXPECT_EQ(config_from_json(rnd1, "c").shift, 1);
  Json fast = small_config("qwen2");
  fast.update({{"model_type", "Fast_dLLM_Qwen"}, {"bd_size", 16}});
  const ModelConfig shifted = config_from_json(fast, "config.json");
  EXPECT_EQ(shifted.attention, AttentionKind::block_causal);
  EXPECT_EQ(shifted.block_length, 16);
  EXPECT_EQ(shifted.shift, 1);
  EXPECT_TRUE(shifted.qkv_bias);
  EXPECT_EQ(config_to_json(shifted).at("bd_size"), 16);
  const ModelConfig wedlm = with(small_config("wedlm"), "qk_norm", false);
  EXPECT_TRUE(wedlm.qkv_bias); // as Qwen2 has it
  EXPECT_FALSE(wedlm.out_bias);
  EXPECT_FALSE(with(small_config("wedlm"), "qk_norm", true).qkv_bias);
}

TEST(Families, NemotronNamesItsParadigm) {
  const Json nemotron = small_config("nemotron_labs_diffusion");
  EXPECT_EQ(with(nemotron, "dlm_paradigm", "block_diff").attention, AttentionKind::block_causal);
  EXPECT_EQ(with(nemotron, "dlm_paradigm", "autoregressive").attention, AttentionKind::causal);
  EXPECT_EQ(with(nemotron, "dlm_paradigm", "bidirectional").block_length, 32);
  expect_error(Code::unimplemented, "dlm_paradigm = \"both\"",
               [&] { with(nemotron, "dlm_paradigm", "both"); });
  const auto model = new_model(small_engine(), nemotron, model_options());
  EXPECT_EQ(model->params().read("encoder.layers.1.self_attn.q_proj.weight").shape(),
            (Shape{16, 16}));
  EXPECT_EQ(model->params().read("diffusion_head.weight").shape(), (Shape{23, 16}));
}

// Rows before original_max_position_embeddings are those without the growth, others are not.
TEST(Families, QueriesGrowBehindTheLengthOfTraining) {
  Json config = small_config("nemotron_labs_diffusion");
  config["initializer_range"] = 0.5;
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"rope_theta", 1e4},
                               {"factor", 4.0},
                               {"original_max_position_embeddings", 6}};
  const auto logits = [&](double beta) {
    config["rope_parameters"]["llama_4_scaling_beta"] = beta;
    const auto model = new_model(small_engine(), config, model_options({{"seed", "3"}}));
    Options options(forward_schema());
    options.set_json(Json{{"attention", "causal"}});
    return forward(*model, small_ids(1, 9, 20), options).at("logits").row(0);
  };
  const Tensor plain = logits(0), grown = logits(0.5);
  EXPECT_TRUE(test::same_bytes(plain.rows(0, 6).clone(), grown.rows(0, 6).clone()));
  EXPECT_FALSE(test::same_bytes(plain.rows(6, 9).clone(), grown.rows(6, 9).clone()));
  EXPECT_EQ(
      config_to_json(with(config, "bos_token_id", 1))["rope_parameters"]["llama_4_scaling_beta"],
      0.5);
}

TEST(Families, CapacityTakesThePlaceOfGroups) {
  Json config = small_config("llada2_moe");
  config.update({{"expert_capacity", 4}, {"block_size", 8}, {"n_group", 4}});
  const ModelConfig made = config_from_json(config, "c");
  EXPECT_EQ(made.experts.groups, 1);
  EXPECT_EQ(made.experts.capacity, 4);
  EXPECT_EQ(made.experts.block, 8);
  EXPECT_EQ(config_to_json(made)["expert_capacity"], 4);
  expect_error(Code::invalid_argument, "expert_capacity is 1, expected at least the 2 experts",
               [&] { with(config, "expert_capacity", 1); });
}

TEST(Families, RunsAreLayersOfOneKind) {
  const ModelConfig config = config_from_json(small_config("qwen3_moe"), "config.json");
  const std::vector<LayerRun> runs = layer_runs(config);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].prefix(), "layers.");
  EXPECT_EQ(runs[0].network, &kExperts);
  EXPECT_EQ(runs[1].prefix(), "layers@1.");
  EXPECT_EQ(runs[1].network, &kMlp);
  EXPECT_EQ(runs[2].first, 2);
  EXPECT_EQ(layer_runs(config_from_json(small_config("llama"), "c")).size(), 1u);

  const std::vector<ParamSpec> specs = find_family(config.family).params(config);
  const auto found = std::find_if(specs.begin(), specs.end(), [](const ParamSpec& spec) {
    return spec.name == "layers@2.expert_up";
  });
  ASSERT_NE(found, specs.end());
  EXPECT_EQ(found->shape(), (Shape{1, 6, 9, 16}));
  EXPECT_EQ(found->logical_name(found->pieces[3], 0),
            "model.layers.2.mlp.experts.3.up_proj.weight");
  EXPECT_EQ(found->logical_shape(found->pieces[3]), (Shape{9, 16}));
}

TEST(Families, NameBadNumbersOfExperts) {
  const Json qwen = small_config("qwen3_moe"), llada2 = small_config("llada2_moe");
  expect_error(Code::invalid_argument, "num_experts_per_tok is 7, expected an integer from 1 to 6",
               [&] { with(qwen, "num_experts_per_tok", 7); });
  expect_error(Code::invalid_argument, "mlp_only_layers is [3], expected a list of layers",
               [&] { with(qwen, "mlp_only_layers", {3}); });
  expect_error(Code::invalid_argument, "n_group is 4, expected a divisor of the 6 experts",
               [&] { with(llada2, "n_group", 4); });
  expect_error(Code::invalid_argument, "topk_group is 4, expected an integer from 1 to 3",
               [&] { with(llada2, "topk_group", 4); });
  expect_error(Code::invalid_argument, "num_experts_per_tok is 5, expected at most 4",
               [&] { with(llada2, "num_experts_per_tok", 5); });
  expect_error(Code::unimplemented, "score_function = \"softmax\"",
               [&] { with(llada2, "score_function", "softmax"); });
  expect_error(Code::invalid_argument, "moe_layer_freq is [1], expected a list of 3 numbers",
               [&] { with(small_config("dllm_moe"), "moe_layer_freq", Json::array({1})); });
  Json missing = small_config("lladamoe");
  missing.erase("expert_intermediate_size");
  expect_error(Code::invalid_argument, "expert_intermediate_size is missing",
               [&] { config_from_json(missing, "config.json"); });
}

TEST(Families, NameBadNumbersOfGemma) {
  const Json gemma = small_config("gemma3_text");
  expect_error(Code::invalid_argument, "layer_types is [\"full_attention\"], expected a list of 3",
               [&] { with(gemma, "layer_types", Json::array({"full_attention"})); });
  expect_error(Code::invalid_argument, "sliding_window is 0",
               [&] { with(gemma, "sliding_window", 0); });
  expect_error(Code::unimplemented, "use_bidirectional_attention = true",
               [&] { with(gemma, "use_bidirectional_attention", true); });
  expect_error(Code::unimplemented, "rope type llama3 of gemma3", [&] {
    with(gemma, "rope_scaling", {{"rope_type", "llama3"}, {"factor", 2.0}});
  });
}

TEST(Families, GemmaListsItsLayersWhenTheFileDoesNot) {
  Json two = small_config("gemma2"), three = small_config("gemma3_text");
  two["num_hidden_layers"] = 4;
  three["num_hidden_layers"] = 7;
  EXPECT_EQ(config_from_json(two, "c").sliding, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(config_from_json(three, "c").sliding,
            (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(config_from_json(two, "c").logit_softcap, 30);
  two["final_logit_softcapping"] = nullptr;
  EXPECT_EQ(config_from_json(two, "c").logit_softcap, 0);
}

// Rows whose logits change when token `column` changes.
std::vector<int64_t> reach(Model& model, const Batch& batch, int64_t column,
                           const char* attention) {
  Options options(forward_schema());
  options.set_json(Json{{"attention", attention}});
  Batch other = batch;
  Tensor ids = batch.at("ids").clone();
  ids.mutable_as<int32_t>()[static_cast<size_t>(column)] ^= 1;
  other.set("ids", ids);
  const Tensor a = forward(model, batch, options).at("logits").row(0),
               b = forward(model, other, options).at("logits").row(0);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < a.shape()[0]; ++i) {
    if (!test::same_bytes(a.row(i).clone(), b.row(i).clone())) rows.push_back(i);
  }
  return rows;
}

TEST(Families, AWindowNarrowsCausalAttentionOnly) {
  using Rows = std::vector<int64_t>;
  Json object = small_config("gemma3_text");
  object["num_hidden_layers"] = 2;
  object["sliding_window"] = 2;
  object["layer_types"] = {"sliding_attention", "sliding_attention"};
  const auto narrow = new_model(small_engine(), object, model_options());
  Batch batch = small_ids(1, 7, 22);
  EXPECT_EQ(reach(*narrow, batch, 1, "causal"), (Rows{1, 2, 3})); // one token a layer
  EXPECT_EQ(reach(*narrow, batch, 1, "bidirectional"), (Rows{0, 1, 2, 3, 4, 5, 6}));
  object["layer_types"] = {"sliding_attention", "full_attention"};
  const auto mixed = new_model(small_engine(), object, model_options());
  EXPECT_EQ(reach(*mixed, batch, 1, "causal"), (Rows{1, 2, 3, 4, 5, 6}));
  // A table that the caller drew replaces the window.
  batch.set("mask", Tensor::from(Shape{1, 7, 7}, std::vector<uint8_t>(49, 1)));
  EXPECT_EQ(reach(*narrow, batch, 1, "causal"), (Rows{1, 2, 3, 4, 5, 6}));
}

TEST(Families, CapsBoundTheLogits) {
  Json object = small_config("gemma2");
  object["final_logit_softcapping"] = 0.01;
  const auto model = new_model(small_engine(), object, model_options());
  const Batch result = forward(*model, small_ids(1, 5, 23));
  double most = 0;
  for (const float logit : result.at("logits").as<float>())
    most = std::max(most, std::abs(static_cast<double>(logit)));
  EXPECT_LE(most, 0.01);
  EXPECT_GT(most, 0.005);
}

TEST(Families, RoutersStayF32) {
  const auto model =
      new_model(small_engine(), small_config("llada2_moe"), model_options({{"dtype", "int8"}}));
  for (const ParamStore::Physical& entry : model->params().physical()) {
    const bool is_router = entry.name.ends_with("router"), is_expert = entry.name.ends_with("_up");
    if (is_router || is_expert) {
      EXPECT_EQ(entry.dtype, is_router ? DType::f32 : DType::i8) << entry.name;
    }
  }
}

// Along its gradient a loss changes as fast as the gradient is long: of every parameter.
class Slope : public ::testing::TestWithParam<const char*> {};

TEST_P(Slope, OfEveryParameter) {
  Json object = small_config(GetParam());
  object["initializer_range"] = 0.3;
  const auto model = new_model(small_engine(), object, model_options());
  auto graph = std::make_shared<graph::Graph>("slope");
  Builder builder(*graph, *model);
  ForwardInputs inputs;
  inputs.ids = graph->input("ids", DType::i32, {2, 6});
  inputs.mask = graph::Mask::causal();
  const graph::Value hidden = graph::reshape(builder.forward(inputs).hidden, {12, 16});
  const Head head = builder.head();
  const graph::Value targets = graph->input("targets", DType::i32, {12});
  const graph::Value loss =
      graph::sum(graph::linear_cross_entropy(hidden, head.weight, head.bias, head.scale, targets,
                                             {}, head.softcap),
                 {0});
  graph->output("loss", loss);
  const std::vector<graph::Value> gradients = graph::gradients(loss, builder.parameters());
  for (size_t p = 0; p < gradients.size(); ++p)
    graph->output("gradient " + std::to_string(p), gradients[p]);
  const auto program = model->engine().compile(graph);

  const Tensor ids = small_ids(2, 6, 23).at("ids");
  const auto run = [&](size_t changed, const Tensor& value) {
    std::vector<graph::BufferRef> buffers = model->params().snapshot();
    if (value.defined()) buffers[changed] = model->engine().upload(value);
    buffers.push_back(model->engine().upload(ids));
    buffers.push_back(model->engine().upload(ids.reshaped({12})));
    return program->run(buffers);
  };
  const auto results = run(0, {});
  for (size_t p = 0; p < model->params().physical().size(); ++p) {
    const std::string& name = model->params().physical()[p].name;
    const Tensor gradient = results[p + 1]->read();
    double square = 0;
    for (const float g : gradient.as<float>()) square += static_cast<double>(g) * g;
    if (name.ends_with("router.bias")) { // decides, but enters no sum
      EXPECT_EQ(square, 0) << name;
      continue;
    }
    ASSERT_GT(square, 0) << name;
    const double step =
        5e-4 / std::sqrt(square); // shorter than the way to another choice of experts
    const auto loss_at = [&](double factor) {
      Tensor moved = model->params().widened(p).clone();
      for (size_t i = 0; i < moved.mutable_as<float>().size(); ++i)
        moved.mutable_as<float>()[i] += static_cast<float>(factor * gradient.as<float>()[i]);
      return static_cast<double>(run(p, moved)[0]->read().as<float>()[0]);
    };
    const double slope = (loss_at(step) - loss_at(-step)) / (2 * step);
    EXPECT_NEAR(slope, square, 0.02 * square + 0.02 * std::sqrt(square)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Slope,
                         ::testing::Values("qwen2_moe", "qwen3_moe", "dllm_moe", "lladamoe",
                                           "llada2_moe", "gemma2", "gemma3_text"),
                         [](const auto& info) { return std::string(info.param); });

} // namespace
} // namespace dllm::model

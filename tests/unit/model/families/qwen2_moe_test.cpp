// Qwen2-MoE against its formulas in plain loops of doubles, and as llama.cpp writes it to GGUF.

#include "base/files.h"
#include "ckpt/gguf/gguf.h"
#include "model/files/quantize.h"
#include "unit/model/families/plain_moe.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;

std::shared_ptr<Model> qwen2_moe(const Json& changes = Json::object()) {
  Json config = small_config("qwen2_moe");
  config["initializer_range"] = 0.6;
  config.update(changes);
  const auto model = new_model(small_engine(), config, model_options({{"seed", "3"}}));
  // Biases of a new model are 0.
  for (const std::string& name : model->params().names()) {
    if (!name.ends_with(".bias")) continue;
    Tensor bias = model->params().read(name).clone();
    for (int64_t i = 0; i < bias.count(); ++i)
      bias.mutable_as<float>()[static_cast<size_t>(i)] = 0.3f * static_cast<float>(i % 7 - 3);
    model->params().write(name, bias);
  }
  return model;
}

TEST(Qwen2Moe, EveryConfigurationIsTheFormula) {
  expect_plain("defaults", *qwen2_moe());
  expect_plain("divided by the sum", *qwen2_moe({{"norm_topk_prob", true}}));
  expect_plain("dense in between", *qwen2_moe({{"mlp_only_layers", {1}}}));
  expect_plain("every other layer", *qwen2_moe({{"decoder_sparse_step", 2}}));
  expect_plain("without biases", *qwen2_moe({{"qkv_bias", false}}));
  expect_plain("a single expert", *qwen2_moe({{"num_experts_per_tok", 1}}));
}

TEST(Qwen2Moe, HasTheNamesOfHuggingFace) {
  const auto model = qwen2_moe();
  EXPECT_EQ(model->params().read("model.layers.2.mlp.shared_expert_gate.weight").shape(),
            (Shape{1, 16}));
  EXPECT_EQ(model->params().read("model.layers.2.mlp.shared_expert.up_proj.weight").shape(),
            (Shape{7, 16}));
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.attention, AttentionKind::causal);
  EXPECT_FALSE(config.experts.normalize);
  const Json words = config_to_json(config);
  EXPECT_EQ(words["shared_expert_intermediate_size"], 7);
  EXPECT_EQ(words["architectures"][0], "Qwen2MoeForCausalLM");
  EXPECT_TRUE(config_from_json(words, "c").experts.shared_gate);
}

Options qwen2_moe_format(const char* format) {
  Options options(quantize_schema());
  options.set_text("format", format);
  return options;
}

// Names, the gate as a vector, and the widths of the two kinds of experts.
TEST(Qwen2Moe, GgufIsAsLlamaCppWritesIt) {
  const test::TempFolder folder;
  const auto model = qwen2_moe({{"hidden_size", 64},
                                {"head_dim", 16},
                                {"intermediate_size", 96},
                                {"moe_intermediate_size", 32},
                                {"shared_expert_intermediate_size", 96}});
  save_model(*model, folder.path("m"), Options(save_schema()));
  quantize_model(folder.path("m"), folder.path("m.gguf"), qwen2_moe_format("f32"));
  const ckpt::GgufFile file(map_file(folder.path("m.gguf")), "m.gguf");
  EXPECT_EQ(file.text("general.architecture"), "qwen2moe");
  EXPECT_EQ(file.integer("qwen2moe.expert_shared_feed_forward_length"), 96);
  EXPECT_EQ(file.integer("qwen2moe.expert_feed_forward_length"), 32);
  EXPECT_EQ(file.tensor_info("blk.1.ffn_gate_inp_shexp.weight").shape, (Shape{64}));
  EXPECT_EQ(file.tensor_info("blk.1.ffn_down_shexp.weight").shape, (Shape{64, 96}));
  EXPECT_EQ(file.tensor_info("blk.1.ffn_down_exps.weight").shape, (Shape{6, 64, 32}));
  const Batch batch = test::small_ids(2, 9, 20);
  const Tensor wanted = forward(*model, batch).at("logits");
  const auto logits_of = [&](const char* name) {
    const auto other = load_model(small_engine(), folder.path(name), model_options());
    return forward(*other, batch).at("logits");
  };
  EXPECT_TRUE(test::same_bytes(logits_of("m.gguf"), wanted));
  quantize_model(folder.path("m.gguf"), folder.path("back"), qwen2_moe_format("f32"));
  EXPECT_TRUE(test::same_bytes(logits_of("back"), wanted));
}

// The architecture has one rule for the shares of the chosen.
TEST(Qwen2Moe, AnotherRuleHasNoGguf) {
  const test::TempFolder folder;
  save_model(*qwen2_moe({{"norm_topk_prob", true}}), folder.path("m"), Options(save_schema()));
  expect_error(Code::unimplemented, "this rule of the experts' shares", [&] {
    quantize_model(folder.path("m"), folder.path("m.gguf"), qwen2_moe_format("f32"));
  });
}

} // namespace
} // namespace dllm::model

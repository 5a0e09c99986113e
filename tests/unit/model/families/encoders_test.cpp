// BERT, ModernBERT and dllm-jax's encoder: names, layout, windows on both sides.

#include "base/files.h"
#include "model/layers/layer_kind.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;

std::shared_ptr<Model> encoder(const Json& config) {
  Json own = config;
  own["initializer_range"] = 0.5;
  return new_model(small_engine(), own, model_options({{"seed", "3"}}));
}

Json modernbert(const Json& changes = Json::object()) {
  Json config = small_config("modernbert");
  config.update({{"local_attention", 4}, {"global_attn_every_n_layers", 3}});
  config.update(changes);
  return config;
}

TEST(Encoders, HaveTheNamesOfTheirFiles) {
  const auto shape = [](const std::shared_ptr<Model>& model, const char* name) {
    return model->params().read(name).shape();
  };
  const auto bert = encoder(small_config("bert"));
  EXPECT_EQ(shape(bert, "bert.embeddings.token_type_embeddings.weight"), (Shape{2, 16}));
  EXPECT_EQ(shape(bert, "bert.encoder.layer.2.output.LayerNorm.bias"), (Shape{16}));
  EXPECT_EQ(shape(bert, "cls.predictions.transform.dense.bias"), (Shape{16}));
  EXPECT_EQ(shape(bert, "cls.predictions.bias"), (Shape{23}));
  const auto modern = encoder(modernbert());
  EXPECT_EQ(shape(modern, "model.layers.1.mlp.Wi.weight"), (Shape{48, 16}));
  EXPECT_EQ(shape(modern, "model.layers.1.attn_norm.weight"), (Shape{16}));
  const auto names = modern->params().names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "model.layers.0.attn_norm.weight"), 0);
  EXPECT_EQ(shape(modern, "decoder.bias"), (Shape{23}));
  EXPECT_EQ(shape(encoder(small_config("dllm_bert")), "mlm_dense.weight"), (Shape{16, 16}));
}

TEST(Encoders, ComeBackFromAFolder) {
  const Batch batch = test::small_ids(2, 9, 20);
  Json own = small_config("dllm_bert");
  own.update({{"num_key_value_heads", 1},
              {"attention_bias", false},
              {"use_qk_norm", true},
              {"rms_norm_eps", 0.02},
              {"hidden_act", "relu"}});
  const Json biased = modernbert({{"norm_bias", true}, {"classifier_activation", "relu"}});
  for (const Json& config :
       {small_config("bert"), modernbert(), biased, small_config("dllm_bert"), own}) {
    const test::TempFolder folder;
    const auto model = encoder(config);
    EXPECT_EQ(model->config().attention, AttentionKind::bidirectional);
    save_model(*model, folder.path("m"), Options(save_schema()));
    const auto back = load_model(small_engine(), folder.path("m"), model_options());
    EXPECT_TRUE(
        test::same_bytes(forward(*back, batch).at("logits"), forward(*model, batch).at("logits")))
        << config.at("model_type");
  }
}

// Rows whose logits change when the token at `column` changes.
std::vector<int64_t> reach(Model& model, int64_t column) {
  const Batch batch = test::small_ids(1, 12, 20);
  Batch other = batch;
  Tensor ids = batch.at("ids").clone();
  ids.mutable_as<int32_t>()[static_cast<size_t>(column)] ^= 1;
  other.set("ids", ids);
  const Tensor a = forward(model, batch).at("logits").row(0),
               b = forward(model, other).at("logits").row(0);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < a.shape()[0]; ++row) {
    if (!test::same_bytes(a.row(row).clone(), b.row(row).clone())) rows.push_back(row);
  }
  return rows;
}

TEST(Encoders, LocalLayersSeeBothSides) {
  Json config = modernbert({{"num_hidden_layers", 1}});
  config["layer_types"] = Json::array({"sliding_attention"});
  EXPECT_EQ(reach(*encoder(config), 5), (std::vector<int64_t>{3, 4, 5, 6, 7}));
  config["layer_types"] = Json::array({"full_attention"});
  EXPECT_EQ(reach(*encoder(config), 5).size(), 12u);
}

TEST(Encoders, TheFirstLayerIsARunOfItsOwn) {
  const std::vector<LayerRun> runs = layer_runs(config_from_json(modernbert(), "c"));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].first, 1);
  EXPECT_EQ(runs[1].count, 2);
}

TEST(Encoders, NameWhatIsNotThere) {
  expect_error(Code::unimplemented, "hidden_activation = no_function", [] {
    config_from_json(modernbert({{"hidden_activation", "no_function"}}), "c");
  });
  expect_error(Code::invalid_argument, "layer_types is [\"full_attention\"], expected a list of 3",
               [] {
                 Json config = modernbert();
                 config["layer_types"] = Json::array({"full_attention"});
                 config_from_json(config, "c");
               });
  Json bert = small_config("bert");
  bert["position_embedding_type"] = "relative_key";
  expect_error(Code::unimplemented, "position_embedding_type",
               [&] { config_from_json(bert, "c"); });
}

} // namespace
} // namespace dllm::model

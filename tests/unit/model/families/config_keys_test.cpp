// Every key of the framework's config classes is read, refused where it changes numbers, or has no
// effect.

#include "model/families/config_keys.h"

#include "base/log.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::small_config;

// transformers 5.24, configuration_utils.py and the configuration file of each family, with a value
// that is not the usual one.
const Json kOfEvery = {{"architectures", {"X"}},
                       {"output_hidden_states", true},
                       {"return_dict", false},
                       {"dtype", "float16"},
                       {"chunk_size_feed_forward", 4},
                       {"is_encoder_decoder", true},
                       {"id2label", {{"0", "a"}}},
                       {"label2id", {{"a", 0}}},
                       {"problem_type", "regression"},
                       {"transformers_version", "9"},
                       {"use_cache", false},
                       {"pad_token_id", 3},
                       {"bos_token_id", 3},
                       {"eos_token_id", {3, 4}},
                       {"tie_word_embeddings", nullptr}}; // see below
const Json kOfLlama = {{"vocab_size", 29},
                       {"hidden_size", 32},
                       {"intermediate_size", 40},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 2},
                       {"num_key_value_heads", 1},
                       {"hidden_act", "relu"},
                       {"max_position_embeddings", 64},
                       {"initializer_range", 0.5},
                       {"rms_norm_eps", 0.1},
                       {"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}},
                       {"attention_dropout", 0.5},
                       {"head_dim", 8}};

struct Row {
  const char* type;
  bool is_llama;
  Json keys;
};

const std::vector<Row>& rows() {
  const Json windows = {
      {"use_sliding_window", true}, {"sliding_window", 7}, {"max_window_layers", 1}};
  const Json types = {{"layer_types", {"sliding_attention", "full_attention", "full_attention"}}};
  const Json bias = {{"attention_bias", true}};
  const Json experts = {{"decoder_sparse_step", 2},    {"moe_intermediate_size", 5},
                        {"num_experts_per_tok", 1},    {"num_experts", 3},
                        {"norm_topk_prob", nullptr},   {"output_router_logits", true},
                        {"router_aux_loss_coef", 0.5}, {"mlp_only_layers", {0}}};
  const auto all = [](std::initializer_list<Json> parts) {
    Json made = Json::object();
    for (const Json& part : parts) made.update(part);
    return made;
  };
  const Json gemma = {{"hidden_activation", "relu"},   {"query_pre_attn_scalar", 9},
                      {"sliding_window", 7},           {"final_logit_softcapping", 3.0},
                      {"attn_logit_softcapping", 3.0}, {"use_bidirectional_attention", true}};
  static const std::vector<Row> table = {
      {"llama", true, all({bias, {{"mlp_bias", true}, {"pretraining_tp", 2}}})},
      {"qwen2", true, all({windows, types})},
      {"qwen3", true, all({windows, types, bias})},
      {"qwen2_moe", true,
       all({windows,
            types,
            experts,
            {{"qkv_bias", false}, {"shared_expert_intermediate_size", 5}}})},
      {"qwen3_moe", true, all({windows, bias, experts})},
      {"gemma2", true, all({gemma, types, bias})},
      {"gemma3_text", true, all({gemma, types, bias})},
      {"gpt2",
       false,
       {{"vocab_size", 29},
        {"n_positions", 64},
        {"n_embd", 32},
        {"n_layer", 2},
        {"n_head", 4},
        {"n_inner", 40},
        {"activation_function", "relu"},
        {"resid_pdrop", 0.5},
        {"embd_pdrop", 0.5},
        {"attn_pdrop", 0.5},
        {"layer_norm_epsilon", 0.1},
        {"initializer_range", 0.5},
        {"summary_type", "mean"},
        {"summary_use_proj", false},
        {"summary_activation", "tanh"},
        {"summary_proj_to_labels", false},
        {"summary_first_dropout", 0.5},
        {"scale_attn_weights", false},
        {"scale_attn_by_inverse_layer_idx", true},
        {"reorder_and_upcast_attn", true},
        {"add_cross_attention", true}}},
      {"bert",
       false,
       {{"vocab_size", 29},
        {"hidden_size", 32},
        {"num_hidden_layers", 2},
        {"num_attention_heads", 2},
        {"intermediate_size", 40},
        {"hidden_act", "relu"},
        {"hidden_dropout_prob", 0.5},
        {"attention_probs_dropout_prob", 0.5},
        {"max_position_embeddings", 64},
        {"type_vocab_size", 3},
        {"initializer_range", 0.5},
        {"layer_norm_eps", 0.1},
        {"classifier_dropout", 0.5},
        {"is_decoder", true},
        {"add_cross_attention", true}}},
      {"modernbert",
       false,
       {{"vocab_size", 29},
        {"hidden_size", 32},
        {"intermediate_size", 40},
        {"num_hidden_layers", 2},
        {"num_attention_heads", 2},
        {"hidden_activation", "relu"},
        {"max_position_embeddings", 64},
        {"initializer_range", 0.5},
        {"initializer_cutoff_factor", 3.0},
        {"norm_eps", 0.1},
        {"norm_bias", true},
        {"cls_token_id", 3},
        {"sep_token_id", 3},
        {"attention_bias", true},
        {"attention_dropout", 0.5},
        {"layer_types", {"sliding_attention", "full_attention", "full_attention"}},
        {"rope_parameters",
         {{"full_attention", {{"rope_theta", 5.0}}}, {"sliding_attention", {{"rope_theta", 5.0}}}}},
        {"local_attention", 6},
        {"embedding_dropout", 0.5},
        {"mlp_bias", true},
        {"mlp_dropout", 0.5},
        {"decoder_bias", false},
        {"classifier_pooling", "mean"},
        {"classifier_dropout", 0.5},
        {"classifier_bias", true},
        {"classifier_activation", "relu"},
        {"deterministic_flash_attn", true},
        {"sparse_prediction", true},
        {"sparse_pred_ignore_index", 3}}}};
  return table;
}

// What is computed: the words that a config prints, without those that it only carries along.
Json meaning(const Json& object) {
  ModelConfig config = config_from_json(object, "config.json");
  config.source.clear();
  return config_to_json(config);
}

void expect_as_in_table(const std::string& type, const std::string& key, const Json& value,
                        const Json& base) {
  SCOPED_TRACE(type + " " + key + " " + value.dump());
  const ConfigKey* entry = find_config_key(type, key);
  ASSERT_NE(entry, nullptr);
  Json changed = base;
  changed[key] = value;
  std::string refused;
  Json after;
  try {
    after = meaning(changed);
  } catch (const Error& error) {
    refused = error.text();
  }
  switch (entry->use) {
  case ConfigKeyUse::used:
    EXPECT_TRUE(refused.empty() ? after != meaning(base)
                                : refused.find(key) != std::string::npos || key == "num_experts")
        << refused << after;
    break;
  case ConfigKeyUse::plain: EXPECT_NE(refused.find(key), std::string::npos) << after; break;
  case ConfigKeyUse::harmless: EXPECT_EQ(after, meaning(base)) << refused; break;
  }
}

TEST(ConfigKeys, OfEveryFamilyAreUsedRefusedOrHarmless) {
  for (const Row& row : rows()) {
    const Json base = small_config(row.type);
    Json keys = kOfEvery;
    if (row.is_llama) keys.update(kOfLlama);
    keys.update(row.keys);
    const bool tied = meaning(base)["tie_word_embeddings"];
    keys["tie_word_embeddings"] = !tied;
    if (keys.contains("norm_topk_prob"))
      keys["norm_topk_prob"] = !meaning(base)["norm_topk_prob"].get<bool>();
    for (const auto& [key, value] : keys.items()) expect_as_in_table(row.type, key, value, base);
  }
}

TEST(ConfigKeys, NullAndTheUsualValueAreNeverRefused) {
  for (const char* key : {"is_encoder_decoder", "add_cross_attention"}) {
    Json config = small_config("gpt2");
    for (const Json& value : std::vector<Json>{nullptr, false}) {
      config[key] = value;
      EXPECT_EQ(config_from_json(config, "c").layers, 3) << key;
    }
  }
  Json config = small_config("qwen2");
  config["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(config_from_json(config, "c").layers, 3);
}

TEST(ConfigKeys, BertsOwnEpsilonIsThatOfItsClass) {
  EXPECT_EQ(config_from_json(small_config("bert"), "c").norm_eps, 1e-12);
  EXPECT_EQ(config_from_json(small_config("modernbert"), "c").norm_eps, 1e-5);
  EXPECT_EQ(config_from_json(small_config("dllm_bert"), "c").norm_eps, 1e-5);
}

TEST(ConfigKeys, UnknownOnesAreInTheLog) {
  std::string lines;
  log_hook(LogLevel::info, [&](LogLevel, const std::string& line) { lines += line; });
  Json config = small_config("llama");
  config["something_new"] = 3;
  config_from_json(config, "c");
  log_hook(LogLevel::warn, {});
  EXPECT_NE(lines.find("something_new"), std::string::npos) << lines;
}

} // namespace
} // namespace dllm::model

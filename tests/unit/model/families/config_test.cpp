#include "model/config.h"

#include "../model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::expect_error;
using test::small_config;

ModelConfig with(Json config, const char* key, Json value) {
  config[key] = std::move(value);
  return config_from_json(config, "config.json");
}

TEST(Config, ReadsLlama) {
  const ModelConfig config = config_from_json(small_config("llama"), "config.json");
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.vocab_size, 23);
  EXPECT_EQ(config.kv_size(), 8);
  EXPECT_EQ(config.attention, AttentionKind::causal);
  EXPECT_EQ(config.shift, 0);
  EXPECT_EQ(config.mask_token_id, -1);
  EXPECT_FALSE(config.tie_embeddings);
}

TEST(Config, FamiliesHaveTheirOwnAttentionAndShift) {
  const ModelConfig dream = config_from_json(small_config("Dream"), "config.json");
  EXPECT_EQ(dream.attention, AttentionKind::bidirectional);
  EXPECT_EQ(dream.shift, 1);
  const ModelConfig llada = config_from_json(small_config("llada"), "config.json");
  EXPECT_EQ(llada.attention, AttentionKind::bidirectional);
  EXPECT_EQ(llada.shift, 0);
  EXPECT_EQ(llada.mask_token_id, 20);
  EXPECT_EQ(llada.vocab_size, 24);
}

TEST(Config, OwnSettingsWinAndArePrinted) {
  Json object = small_config("qwen3");
  object["dllm"] = {
      {"attention", "block_causal"}, {"shift", 1}, {"mask_token_id", 22}, {"block_length", 4}};
  const ModelConfig config = config_from_json(object, "config.json");
  EXPECT_EQ(config.attention, AttentionKind::block_causal);
  EXPECT_EQ(config.shift, 1);
  EXPECT_EQ(config.block_length, 4);
  EXPECT_EQ(config_to_json(config)["dllm"], object["dllm"]);
}

TEST(Config, PrintingIsAFixedPoint) {
  for (const char* type :
       {"llama", "qwen2", "qwen3", "gpt2", "Dream", "llada", "nano-dlm", "a2d-qwen3", "qwen3_moe",
        "dllm_moe", "lladamoe", "llada2_moe", "llada21_moe", "gemma2", "gemma3_text"}) {
    Json object = small_config(type);
    object["something_unknown"] = {{"kept", 1}};
    const Json once = config_to_json(config_from_json(object, "config.json"));
    EXPECT_EQ(config_to_json(config_from_json(once, "config.json")), once) << type;
    EXPECT_EQ(once["something_unknown"], object["something_unknown"]) << type;
  }
}

TEST(Config, RopeOfBothFrameworksIsOne) {
  Json old_words = small_config("llama"), new_words = small_config("llama");
  old_words["rope_theta"] = 5000.0;
  old_words["rope_scaling"] = {{"rope_type", "llama3"},
                               {"factor", 8.0},
                               {"low_freq_factor", 1.0},
                               {"high_freq_factor", 4.0},
                               {"original_max_position_embeddings", 16}};
  new_words["rope_parameters"] = old_words["rope_scaling"];
  new_words["rope_parameters"]["rope_theta"] = 5000.0;
  const RopeConfig a = config_from_json(old_words, "a").rope,
                   b = config_from_json(new_words, "b").rope;
  EXPECT_EQ(a.type, "llama3");
  EXPECT_EQ(a.theta, b.theta);
  EXPECT_EQ(a.factor, b.factor);
  EXPECT_EQ(a.original_max_positions, b.original_max_positions);
}

TEST(Config, NamesBadNumbers) {
  const Json base = small_config("llama");
  expect_error(Code::invalid_argument,
               "config.json: hidden_size is -1, expected an integer from 1 to",
               [&] { with(base, "hidden_size", -1); });
  expect_error(Code::invalid_argument, "vocab_size is \"many\"",
               [&] { with(base, "vocab_size", "many"); });
  expect_error(Code::invalid_argument, "vocab_size is 18446744073709551615",
               [&] { with(base, "vocab_size", 18446744073709551615u); });
  expect_error(Code::invalid_argument,
               "num_key_value_heads is 3, expected a divisor of the 4 attention heads",
               [&] { with(base, "num_key_value_heads", 3); });
  expect_error(Code::invalid_argument, "head_dim is 5, expected an even number",
               [&] { with(base, "head_dim", 5); });
  expect_error(Code::invalid_argument, "mask_token_id is 23, expected less than vocab_size 23",
               [&] { with(base, "mask_token_id", 23); });
  expect_error(Code::invalid_argument, "rope_scaling.factor is missing", [&] {
    with(base, "rope_scaling", {{"rope_type", "linear"}});
  });
  expect_error(Code::invalid_argument, "expected a JSON object",
               [&] { config_from_json(Json::array(), "config.json"); });
  Json missing = base;
  missing.erase("num_hidden_layers");
  expect_error(Code::invalid_argument, "num_hidden_layers is missing",
               [&] { config_from_json(missing, "config.json"); });
}

TEST(Config, NamesWhatIsNotThereYet) {
  const Json base = small_config("llama");
  const Error unknown = test::error_of([&] { with(base, "model_type", "mamba2"); });
  EXPECT_EQ(unknown.code(), Code::unimplemented);
  EXPECT_NE(unknown.text().find("mamba2"), std::string::npos);
  EXPECT_NE(unknown.hint().find("llama"), std::string::npos);
  expect_error(Code::unimplemented, "hidden_act = mish", [&] { with(base, "hidden_act", "mish"); });
  expect_error(Code::unimplemented, "rope_scaling.rope_type = \"longrope\"", [&] {
    with(base, "rope_scaling", {{"rope_type", "longrope"}, {"factor", 2.0}});
  });
}

TEST(Config, HostileTextIsAnError) {
  for (const char* text :
       {"", "{", "[]", "nul", "{\"model_type\": 5}", "{\"model_type\": \"llama\"}",
        "{\"model_type\": \"llama\", \"vocab_size\": 1e400}"}) {
    EXPECT_THROW(config_from_text(text, "config.json"), Error) << text;
  }
}

// The goldens' own files.
TEST(Config, ReadsGoldenConfigs) {
  const std::string folder = test::golden_path("models");
  DLLM_NEEDS_FILE(folder);
  int read = 0;
  for (const std::string& name : list_directory(folder)) {
    const std::string path = join_path(join_path(folder, name), "config.json");
    if (!file_exists(path)) continue;
    try {
      const ModelConfig config = config_from_text(read_text(path), path);
      EXPECT_EQ(config_to_json(config_from_json(config_to_json(config), name)),
                config_to_json(config))
          << name;
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unimplemented) << name << ": " << error.text();
    }
  }
  EXPECT_GT(read, 30);
}

} // namespace
} // namespace dllm::model

// Every key that PEFT writes into adapter_config.json: used, refused, or without effect.

#include "model/adapters/adapter_config.h"
#include "model/adapters/adapter_ranks.h"
#include "model/adapters/kinds/adapter_kinds.h"

#include "base/error.h"
#include "base/log.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::model {
namespace {

// What LoraConfig(r=4, lora_alpha=6).to_dict() gives in PEFT 0.21.2, and a value of each key that
// switches it on.
struct PeftKey {
  const char* name;
  Json by_default;
  Json other;
};

std::vector<PeftKey> peft_keys() {
  return {{"task_type", nullptr, "CAUSAL_LM"},
          {"peft_type", "LORA", "VERA"},
          {"auto_mapping", nullptr, {{"base_model_class", "X"}}},
          {"peft_version", "0.21.2", "0.3"},
          {"base_model_name_or_path", nullptr, "a/b"},
          {"revision", nullptr, "main"},
          {"inference_mode", true, false},
          {"r", 4, 8},
          {"target_modules", Json::array({"q_proj", "up_proj"}), Json::array({"q_proj"})},
          {"exclude_modules", nullptr, Json::array({"layers.0.self_attn.q_proj"})},
          {"lora_alpha", 6, 12},
          {"lora_dropout", 0.0, 0.1},
          {"fan_in_fan_out", false, true},
          {"bias", "none", "all"},
          {"use_rslora", false, true},
          {"modules_to_save", nullptr, {"lm_head"}},
          {"init_lora_weights", true, "pissa"},
          {"layers_to_transform", nullptr, Json::array({1})},
          {"layers_pattern", nullptr, "blocks"},
          {"rank_pattern", Json::object(), {{"q_proj", 2}}},
          {"alpha_pattern", Json::object(), {{"q_proj", 2}}},
          {"megatron_config", nullptr, {{"a", 1}}},
          {"megatron_core", "megatron.core", "another"},
          {"trainable_token_indices", nullptr, Json::array({1, 2})},
          {"loftq_config", Json::object(), {{"loftq_bits", 4}}},
          {"eva_config", nullptr, {{"rho", 2.0}}},
          {"corda_config", nullptr, {{"cache_file", "x"}}},
          {"lora_ga_config", nullptr, {{"direction", "ArBr"}}},
          {"use_dora", false, true},
          {"velora_config", nullptr, {{"num_groups", 64}}},
          {"alora_invocation_tokens", nullptr, Json::array({1, 2})},
          {"use_qalora", false, true},
          {"qalora_group_size", 16, 8},
          {"monteclora_config", nullptr, {{"num_samples", 8}}},
          {"layer_replication", nullptr, Json::array({Json::array({0, 2})})},
          {"runtime_config", {{"ephemeral_gpu_offload", false}}, {{"ephemeral_gpu_offload", true}}},
          {"lora_bias", false, true},
          {"target_parameters", nullptr, Json::array({"mlp.experts.gate_up_proj"})},
          {"use_bdlora", nullptr, {{"nblocks", 2}}},
          {"arrow_config", nullptr, {{"top_k", 3}}},
          {"kasa_config", nullptr, {{"beta", 1e-4}}},
          {"ensure_weight_tying", false, true}};
}

Json written_by_peft() {
  Json config = Json::object();
  for (const PeftKey& key : peft_keys()) config[key.name] = key.by_default;
  return config;
}

AdapterConfig with(const std::string& key, const Json& value) {
  Json config = written_by_peft();
  config[key] = value;
  return {config, "adapter_config.json"};
}

// What a config says of the numbers.
std::vector<double> meaning(const AdapterConfig& config) {
  const AdapterRanks ranks(config.settings(), "adapter_config.json");
  std::vector<double> found;
  if (config.settings().kind == "dora") found.push_back(1);
  if (config.ties_weights()) found.push_back(2);
  if (config.settings().dropout > 0) found.push_back(config.settings().dropout);
  for (const std::string& word : config.settings().modules_to_save)
    found.push_back(static_cast<double>(word.size()));
  for (const char* layer : {"0", "1"}) {
    for (const char* end : {"self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj"}) {
      const std::string module = fmt::format("model.layers.{}.{}", layer, end);
      const bool has = config.targets().has(module);
      found.push_back(has ? static_cast<double>(ranks.rank(module)) : 0);
      found.push_back(has ? ranks.factor(module) : 0);
    }
  }
  return found;
}

TEST(AdapterConfig, TheTableHasEveryKeyOfPeftAndNoOther) {
  std::vector<std::string> ours, theirs;
  for (const AdapterKey& key : adapter_keys(find_adapter_kind("lora"))) ours.emplace_back(key.name);
  for (const PeftKey& key : peft_keys()) theirs.emplace_back(key.name);
  EXPECT_EQ(ours, theirs);
}

TEST(AdapterConfig, EveryKeyIsUsedRefusedOrHarmless) {
  const AdapterConfig plain(written_by_peft(), "adapter_config.json");
  const std::vector<double> before = meaning(plain);
  EXPECT_EQ(before, (std::vector<double>{4, 1.5, 0, 0, 4, 1.5, 4, 1.5, 0, 0, 4, 1.5}));
  const std::vector<PeftKey> keys = peft_keys();
  const std::vector<AdapterKey> ours = adapter_keys(find_adapter_kind("lora"));
  for (size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(keys[i].name);
    std::string refused;
    std::vector<double> after;
    try {
      after = meaning(with(keys[i].name, keys[i].other));
    } catch (const Error& error) {
      refused = error.text();
      EXPECT_FALSE(error.hint().empty() && error.code() != Code::unimplemented);
    }
    switch (ours[i].use) {
    case AdapterKeyUse::off: EXPECT_NE(refused.find(keys[i].name), std::string::npos); break;
    case AdapterKeyUse::harmless: EXPECT_EQ(after, before) << refused; break;
    case AdapterKeyUse::used:
      // layers_pattern counts next to layers_to_transform alone.
      if (keys[i].name != std::string("layers_pattern"))
        EXPECT_TRUE(refused.find(keys[i].name) != std::string::npos ||
                    (!after.empty() && after != before));
      break;
    }
  }
}

TEST(AdapterConfig, AStartThatChangesTheBaseIsRefused) {
  for (const char* word :
       {"pissa", "PiSSA", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga", "of_next_year"}) {
    const Error error = test::error_of([&] { with("init_lora_weights", word); });
    EXPECT_EQ(error.code(), Code::unimplemented) << word;
    EXPECT_NE(error.text().find("init_lora_weights"), std::string::npos) << error.text();
    EXPECT_NE(error.hint().find("path_initial_model_for_weight_conversion"), std::string::npos);
  }
  for (const Json& word :
       std::vector<Json>{true, false, nullptr, "gaussian", "eva", "orthogonal", "mica"})
    EXPECT_EQ(with("init_lora_weights", word).settings().rank, 4) << word;
}

TEST(AdapterConfig, AKeyOfALaterVersionIsNeverSilent) {
  std::vector<std::string> lines;
  log_hook(LogLevel::warn, [&](LogLevel, const std::string& line) { lines.push_back(line); });
  for (const Json& value : std::vector<Json>{nullptr, false, "", Json::array(), Json::object()})
    with("use_nothing_yet", value);
  EXPECT_TRUE(lines.empty());
  for (const Json& value : std::vector<Json>{3, 0.5, "word"}) with("size_of_nothing", value);
  log_hook(LogLevel::warn, {});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("size_of_nothing = 3"), std::string::npos) << lines[0];
  for (const Json& value : std::vector<Json>{true, {{"a", 1}}, Json::array({1})}) {
    const Error error = test::error_of([&] { with("use_nothing_yet", value); });
    EXPECT_EQ(error.code(), Code::unimplemented);
    EXPECT_NE(error.text().find("use_nothing_yet"), std::string::npos) << error.text();
  }
}

TEST(AdapterConfig, ModulesAreChosenByTheRulesOfPeft) {
  struct Row {
    Json targets, excluded, layers, pattern;
    const char* module;
    bool named;
  };
  const char *q = "model.layers.1.self_attn.q_proj", *block = "model.transformer.blocks.1.q_proj";
  const std::vector<Row> rows = {
      {{"q_proj"}, nullptr, nullptr, nullptr, q, true},
      {{"proj"}, nullptr, nullptr, nullptr, q, false},
      {{"self_attn.q_proj"}, nullptr, nullptr, nullptr, q, true},
      {{q}, nullptr, nullptr, nullptr, q, true},
      {".*\\.q_proj", nullptr, nullptr, nullptr, q, true},
      {"q_proj", nullptr, nullptr, nullptr, q, false}, // a pattern of the whole name
      {"all-linear", nullptr, nullptr, nullptr, q, true},
      {"all-linear", {"q_proj"}, nullptr, nullptr, q, false},
      {{"q_proj"}, ".*layers\\.1.*", nullptr, nullptr, q, false},
      {{"q_proj"}, nullptr, 1, nullptr, q, true},
      {{"q_proj"}, nullptr, {0, 2}, nullptr, q, false},
      {{"q_proj"}, nullptr, {0, 1}, "layers", q, true},
      {{"q_proj"}, nullptr, {0, 1}, "blocks", q, false},
      {{"q_proj"}, nullptr, {1}, {"layers", "blocks"}, block, true},
      {nullptr, nullptr, nullptr, nullptr, q, true},
  };
  for (const Row& row : rows) {
    Json config = written_by_peft();
    config["target_modules"] = row.targets;
    config["exclude_modules"] = row.excluded;
    config["layers_to_transform"] = row.layers;
    config["layers_pattern"] = row.pattern;
    EXPECT_EQ(AdapterConfig(config, "f").targets().has(row.module), row.named) << config.dump();
  }
}

TEST(AdapterConfig, WrongTypesAreRefusedByName) {
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"r", "4"},
                                                 {"r", 0},
                                                 {"r", 1 << 20},
                                                 {"lora_alpha", "8"},
                                                 {"lora_alpha", -8},
                                                 {"lora_alpha", 1e30},
                                                 {"use_rslora", 1},
                                                 {"target_modules", 3},
                                                 {"target_modules", "(*)"},
                                                 {"layers_to_transform", Json::array({"a"})},
                                                 {"layers_pattern", Json::array({1})},
                                                 {"init_lora_weights", 1}}) {
    const Error error = test::error_of([&, k = key, v = value] { with(k, v); });
    const bool is_pattern = value == "(*)"; // of another syntax, perhaps
    EXPECT_EQ(error.code(), is_pattern ? Code::unimplemented : Code::invalid_argument)
        << key << value;
    EXPECT_NE(error.text().find(key), std::string::npos) << error.text();
  }
}

} // namespace
} // namespace dllm::model

#include "model/families/gemma.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

std::vector<bool> sliding_layers(const ConfigReader& reader, int64_t layers, int64_t pattern) {
  std::vector<bool> sliding;
  if (!reader.has("layer_types")) {
    for (int64_t layer = 0; layer < layers; ++layer) sliding.push_back((layer + 1) % pattern != 0);
    return sliding;
  }
  const std::string expected =
      fmt::format("a list of {} times \"{}\" or \"{}\"", layers, kSliding, kFull);
  const Json& list = reader.object().at("layer_types");
  if (!list.is_array() || static_cast<int64_t>(list.size()) != layers)
    reader.bad("layer_types", expected);
  for (const Json& item : list) {
    if (item != kSliding && item != kFull) reader.bad("layer_types", expected);
    sliding.push_back(item == kSliding);
  }
  return sliding;
}

} // namespace

double parse_softcap(const ConfigReader& reader, const char* key, double otherwise) {
  const bool null = reader.object().contains(key) && !reader.has(key);
  return null ? 0 : reader.number(key, 1e-3, 1e6, otherwise);
}

Json print_softcap(double cap) {
  return cap > 0 ? Json(cap) : Json(nullptr);
}

void parse_gemma_keys(const ConfigReader& reader, ModelConfig& config, int64_t pattern) {
  parse_llama_keys(reader, config);
  config.head_dim = reader.integer("head_dim", 1, kMaxSize, 256);
  const char* activation = reader.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  config.activation = parse_activation(reader, activation, "gelu_pytorch_tanh");
  config.tie_embeddings = reader.flag("tie_word_embeddings", true);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.centered_norms = config.post_norms = true;
  config.query_scalar = reader.number("query_pre_attn_scalar", 1e-3, 1e6, 256);
  config.sliding = sliding_layers(reader, config.layers, pattern);
  config.window = reader.integer("sliding_window", 1, kMaxPositions, 4096);
}

void print_gemma_keys(const ModelConfig& config, Json& object) {
  const bool old_word = object.contains("hidden_act");
  print_llama_keys(config, object);
  if (!old_word) object.erase("hidden_act"); // Gemma's word is another
  if (!object.contains("hidden_activation"))
    object["hidden_activation"] =
        config.activation == "gelu_tanh" ? "gelu_pytorch_tanh" : print_activation(config);
  object["attention_bias"] = config.qkv_bias;
  object["query_pre_attn_scalar"] = config.query_scalar;
  object["sliding_window"] = config.window;
  Json types = Json::array();
  for (const bool sliding : config.sliding) types.push_back(sliding ? kSliding : kFull);
  object["layer_types"] = types;
  object["attn_logit_softcapping"] = print_softcap(config.attention_softcap);
  object["final_logit_softcapping"] = print_softcap(config.logit_softcap);
}

std::vector<ParamSpec> gemma_params(const ModelConfig& config) {
  const std::string layer = "model.layers.{}.";
  TensorNames names = llama_names();
  names["attention_post_norm"] = layer + "post_attention_layernorm.weight";
  names["mlp_norm"] = layer + "pre_feedforward_layernorm.weight";
  names["mlp_post_norm"] = layer + "post_feedforward_layernorm.weight";
  return transformer_params(config, names);
}

} // namespace dllm::model

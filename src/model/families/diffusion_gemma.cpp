// The text model of DiffusionGemma (Google 2026; Hugging Face "diffusion_gemma"). It has Gemma 4's
// layers: full layers have wider heads and use keys as values, and a dense network works next to
// the experts. A prefix is read causally (the encoder), then a canvas of tokens that see each other
// (the decoder). Both have the same weights. The vision tower is not read.

#include "base/error.h"
#include "model/families/keys.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::model {
namespace {

constexpr const char *kSlidingLayer = "sliding_attention", *kFullLayer = "full_attention";

void parse_layers(const ConfigReader& reader, ModelConfig& config) {
  const std::string expected =
      fmt::format("a list of {} times \"{}\" or \"{}\"", config.layers, kSlidingLayer, kFullLayer);
  if (!reader.has("layer_types")) reader.bad("layer_types", expected);
  const Json& list = reader.object().at("layer_types");
  if (!list.is_array() || static_cast<int64_t>(list.size()) != config.layers)
    reader.bad("layer_types", expected);
  for (const Json& item : list) {
    if (item != kSlidingLayer && item != kFullLayer) reader.bad("layer_types", expected);
    config.sliding.push_back(item == kSlidingLayer);
    config.mixers.emplace_back(config.sliding.back() ? "attention" : "global_attention");
  }
}

// Reads the heads of full layers: "global_head_dim" and "num_global_key_value_heads", or
// "per_layer_config" by layer.
void parse_global_heads(const ConfigReader& reader, ModelConfig& config) {
  GlobalAttentionConfig& heads = config.global_attention;
  reader.require_flag("attention_k_eq_v", true);
  heads.head_dim = reader.integer("global_head_dim", 1, kMaxSize, config.head_dim);
  heads.kv_heads = reader.integer("num_global_key_value_heads", 1, kMaxSize, config.kv_heads);
  if (!reader.has("per_layer_config")) return;
  const ConfigReader layers = reader.child("per_layer_config");
  bool first = true;
  for (size_t layer = 0; layer < config.sliding.size(); ++layer) {
    const std::string name = std::to_string(layer);
    if (config.sliding[layer] && !layers.has(name.c_str())) continue;
    const ConfigReader own = layers.child(name.c_str());
    const int64_t dim = own.integer("head_dim", 1, kMaxSize, config.head_dim),
                  kv = own.integer("num_key_value_heads", 1, kMaxSize, config.kv_heads);
    const bool alike = config.sliding[layer]
                           ? dim == config.head_dim && kv == config.kv_heads
                           : first || (dim == heads.head_dim && kv == heads.kv_heads);
    if (!alike)
      fail(Code::unimplemented,
           "{}: layer {} has {} heads of keys with size {}, unlike others of its kind",
           reader.file(), layer, kv, dim);
    if (config.sliding[layer]) continue;
    heads = {kv, dim};
    first = false;
  }
}

void parse_ropes(const ConfigReader& reader, ModelConfig& config) {
  const ConfigReader both = reader.child("rope_parameters");
  const ConfigReader sliding = both.child(kSlidingLayer), full = both.child(kFullLayer);
  sliding.require_text("rope_type", {"default"});
  full.require_text("rope_type", {"proportional"});
  config.sliding_theta = sliding.number("rope_theta", 1e-3, 1e15, 1e4);
  config.rope = RopeConfig();
  config.rope.type = "proportional";
  config.rope.theta = full.number("rope_theta", 1e-3, 1e15, 1e6);
  config.rope.partial = full.number("partial_rotary_factor", 1e-3, 1.0, 0.25);
}

void parse_diffusion_gemma_experts(const ConfigReader& reader, ModelConfig& config) {
  ExpertConfig& experts = config.experts;
  experts.count = reader.integer("num_experts", 1, kMaxSize, 128);
  experts.per_token = reader.integer("top_k_experts", 1, experts.count, 8);
  experts.intermediate = reader.integer("moe_intermediate_size", 1, kMaxSize, 704);
  experts.joined = experts.normalize = experts.with_mlp = true;
  config.sparse.assign(static_cast<size_t>(config.layers), true);
}

void parse_diffusion_gemma(const ConfigReader& reader, ModelConfig& config) {
  const ConfigReader text = reader.child("text_config");
  Json words = text.object();
  words.erase("rope_parameters"); // read below, by kind of layer
  parse_llama_keys(ConfigReader(words, reader.file()), config);
  config.activation = parse_activation(text, "hidden_activation", "gelu_pytorch_tanh");
  text.require_flag("attention_bias", false);
  config.tie_embeddings = text.flag("tie_word_embeddings", true);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.post_norms = config.qk_norm = config.value_norm = true;
  config.query_scalar = 1;
  config.logit_softcap = text.number("final_logit_softcapping", 1e-3, 1e6, 0);
  config.window = text.integer("sliding_window", 1, kMaxPositions, 1024);
  parse_layers(text, config);
  parse_global_heads(text, config);
  parse_ropes(text, config);
  parse_diffusion_gemma_experts(text, config);
  config.canvas = true;
  config.attention = AttentionKind::causal;
  config.block_length = reader.integer("canvas_length", 1, kMaxPositions, 256);
}

Json print_text(const ModelConfig& config, Json text) {
  text["model_type"] = "diffusion_gemma_text";
  const bool old_word = text.contains("hidden_act");
  print_llama_keys(config, text);
  if (!old_word) text.erase("hidden_act");
  if (!text.contains("hidden_activation"))
    text["hidden_activation"] = print_activation(config.activation);
  text.erase("rope_theta");
  text.erase("rope_scaling");
  text.erase("partial_rotary_factor");
  text["rope_parameters"] = {
      {kFullLayer,
       {{"rope_type", "proportional"},
        {"rope_theta", config.rope.theta},
        {"partial_rotary_factor", config.rope.partial}}},
      {kSlidingLayer, {{"rope_type", "default"}, {"rope_theta", config.sliding_theta}}}};
  Json types = Json::array();
  for (const bool sliding : config.sliding) types.push_back(sliding ? kSlidingLayer : kFullLayer);
  text["layer_types"] = types;
  text.erase("per_layer_config"); // the same in the words of the published checkpoint
  text["global_head_dim"] = config.global_attention.head_dim;
  text["num_global_key_value_heads"] = config.global_attention.kv_heads;
  text["attention_k_eq_v"] = true;
  text["sliding_window"] = config.window;
  text["final_logit_softcapping"] =
      config.logit_softcap > 0 ? Json(config.logit_softcap) : Json(nullptr);
  text["num_experts"] = config.experts.count;
  text["top_k_experts"] = config.experts.per_token;
  text["moe_intermediate_size"] = config.experts.intermediate;
  return text;
}

void print_diffusion_gemma(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures"))
    object["architectures"] = {"DiffusionGemmaForBlockDiffusion"};
  object["canvas_length"] = config.block_length;
  object["tie_word_embeddings"] = config.tie_embeddings;
  object["text_config"] = print_text(config, object.value("text_config", Json::object()));
}

std::vector<ParamSpec> diffusion_gemma_params(const ModelConfig& config) {
  TensorNames names = llama_names();
  for (auto& [name, file] : names.files) {
    if (file.starts_with("model.")) file = "model.decoder." + file.substr(6);
  }
  const std::string layer = "model.decoder.layers.{}.", own = "model.decoder.self_conditioning.";
  names["attention_post_norm"] = layer + "post_attention_layernorm.weight";
  names["mlp_norm"] = layer + "pre_feedforward_layernorm.weight";
  names["dense_post_norm"] = layer + "post_feedforward_layernorm_1.weight";
  names["expert_norm"] = layer + "pre_feedforward_layernorm_2.weight";
  names["expert_post_norm"] = layer + "post_feedforward_layernorm_2.weight";
  names["mlp_post_norm"] = layer + "post_feedforward_layernorm.weight";
  names["router"] = layer + "router.proj.weight";
  names["router_norm"] = layer + "router.scale";
  names["expert_factors"] = layer + "router.per_expert_scale";
  names["expert_gate_up"] = layer + "experts.gate_up_proj";
  names["expert_down"] = layer + "experts.down_proj";
  names["factor"] = layer + "layer_scalar";
  names["encoder_factor"] = "model.encoder.language_model.layers.{}.layer_scalar";
  names["conditioning_norm"] = own + "pre_norm.weight";
  names["conditioning_gate"] = own + "gate_proj.weight";
  names["conditioning_up"] = own + "up_proj.weight";
  names["conditioning_down"] = own + "down_proj.weight";
  return transformer_params(config, names);
}

} // namespace

extern const Family kDiffusionGemma;
const Family kDiffusionGemma = {
    "diffusion-gemma",     {"diffusion_gemma"},   {},
    parse_diffusion_gemma, print_diffusion_gemma, diffusion_gemma_params};

} // namespace dllm::model

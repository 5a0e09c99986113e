// Gemma 2 and Gemma 3 (text). Norms around every block multiply by 1 + weight, embeddings are
// scaled, and layers with a sliding window alternate with layers without one.

#include "base/error.h"
#include "model/config.h"
#include "model/families/keys.h"

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

// Reads a cap. null means no cap, and an absent key means `otherwise`. A cap of 0 is written as
// null.
double parse_softcap(const ConfigReader& reader, const char* key, double otherwise) {
  const bool null = reader.object().contains(key) && !reader.has(key);
  return null ? 0 : reader.number(key, 1e-3, 1e6, otherwise);
}

Json print_softcap(double cap) {
  return cap > 0 ? Json(cap) : Json(nullptr);
}

// `pattern`: every pattern-th layer has no window, where the file does not list its layers.
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
  if (!old_word) object.erase("hidden_act"); // Gemma uses another key
  if (!object.contains("hidden_activation"))
    object["hidden_activation"] = config.activation == "gelu_tanh"
                                      ? "gelu_pytorch_tanh"
                                      : print_activation(config.activation);
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

// --- Gemma 2 ("gemma2"): every second layer has a window; scores and logits are capped. ---

void parse_gemma2(const ConfigReader& reader, ModelConfig& config) {
  parse_gemma_keys(reader, config, 2);
  config.attention_softcap = parse_softcap(reader, "attn_logit_softcapping", 50);
  config.logit_softcap = parse_softcap(reader, "final_logit_softcapping", 30);
}

void print_gemma2(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"Gemma2ForCausalLM"};
  print_gemma_keys(config, object);
}

// --- Gemma 3 ("gemma3_text"): every sixth layer has no window; the other layers have another
// theta; every head of q and k has an RMSNorm. ---

constexpr double kTheta = 1e6, kSlidingTheta = 1e4;

// transformers 5 keeps one set of numbers per kind of layer.
bool has_both(const Json& object) {
  const auto found = object.find("rope_parameters");
  return found != object.end() && found->is_object() && found->contains("full_attention");
}

void parse_both_ropes(const ConfigReader& reader, ModelConfig& config) {
  Json words = reader.object();
  config.sliding_theta = reader.number("rope_local_base_freq", 1e-3, 1e15, kSlidingTheta);
  if (has_both(words)) {
    const ConfigReader both = reader.child("rope_parameters");
    const ConfigReader sliding = both.child("sliding_attention");
    sliding.require_text("rope_type", {"default"});
    config.sliding_theta = sliding.number("rope_theta", 1e-3, 1e15, kSlidingTheta);
    words["rope_parameters"] = both.child("full_attention").object();
  }
  if (!words.contains("rope_theta")) words["rope_theta"] = kTheta;
  config.rope = parse_rope(ConfigReader(words, reader.file()));
  if (config.rope.type != "default" && config.rope.type != "linear") {
    fail(Code::unimplemented, "{}: rope type {} of gemma3 is not supported yet", reader.file(),
         config.rope.type);
  }
}

void parse_gemma3(const ConfigReader& reader, ModelConfig& config) {
  reader.require_flag("use_bidirectional_attention", false);
  Json words = reader.object();
  words.erase("rope_parameters"); // read below, by kind of layer
  const char* pattern =
      reader.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  parse_gemma_keys(ConfigReader(words, reader.file()), config,
                   reader.integer(pattern, 1, kMaxLayers, 6));
  parse_both_ropes(reader, config);
  config.qk_norm = true;
  config.attention_softcap = parse_softcap(reader, "attn_logit_softcapping", 0);
  config.logit_softcap = parse_softcap(reader, "final_logit_softcapping", 0);
}

void print_gemma3(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"Gemma3ForCausalLM"};
  const bool both = has_both(object);
  if (both) object["rope_parameters"] = Json::object(); // print_rope fills it
  print_gemma_keys(config, object);
  if (both) {
    object["rope_parameters"] = {
        {"full_attention", object["rope_parameters"]},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", config.sliding_theta}}}};
  } else {
    object["rope_local_base_freq"] = config.sliding_theta;
  }
}

} // namespace

extern const Family kGemma2;
const Family kGemma2 = {"gemma2",     {"gemma2"},   {"gemma2"},         parse_gemma2,
                        print_gemma2, gemma_params, "Gemma2ForCausalLM"};
extern const Family kGemma3;
const Family kGemma3 = {"gemma3",     {"gemma3_text"}, {"gemma3"},         parse_gemma3,
                        print_gemma3, gemma_params,    "Gemma3ForCausalLM"};

} // namespace dllm::model

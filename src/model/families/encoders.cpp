// Encoders with a head that predicts masked tokens. Every token sees every token, and one more
// layer comes before the head. The families are BERT, ModernBERT, and dllm-jax's own, which has
// BERT's parts around pre-norm layers.

#include "base/error.h"
#include "model/families/keys.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

// Keys and layer kinds that all encoders share.
void parse_encoder_keys(const ConfigReader& reader, ModelConfig& config, const char* eps,
                        double usual_eps, const char* activation) {
  config.vocab_size = reader.integer("vocab_size", 1, kMaxVocab);
  config.hidden_size = reader.integer("hidden_size", 1, kMaxSize);
  config.layers = reader.integer("num_hidden_layers", 1, kMaxLayers);
  config.heads = config.kv_heads = reader.integer("num_attention_heads", 1, kMaxSize);
  if (config.hidden_size % config.heads != 0) {
    reader.bad("num_attention_heads",
               fmt::format("a divisor of hidden_size {}", config.hidden_size));
  }
  config.head_dim = config.hidden_size / config.heads;
  config.intermediate_size = reader.integer("intermediate_size", 1, kMaxSize);
  config.max_positions = reader.integer("max_position_embeddings", 1, kMaxPositions, 512);
  config.norm_eps = reader.number(eps, 0, 1, usual_eps);
  config.init_std = reader.number("initializer_range", 0, 100, 0.02);
  config.activation = parse_activation(reader, activation, "gelu");
  config.norm = NormKind::layer;
  config.attention = AttentionKind::bidirectional;
  config.embedding_norm = config.prediction_layer = true;
  config.tie_embeddings = reader.flag("tie_word_embeddings", true);
}

void print_encoder_keys(const ModelConfig& config, Json& object, const char* eps) {
  object["vocab_size"] = config.vocab_size;
  object["hidden_size"] = config.hidden_size;
  object["num_hidden_layers"] = config.layers;
  object["num_attention_heads"] = config.heads;
  object["intermediate_size"] = config.intermediate_size;
  object["max_position_embeddings"] = config.max_positions;
  object["initializer_range"] = config.init_std;
  object[eps] = config.norm_eps;
  object["tie_word_embeddings"] = config.tie_embeddings;
}

// Adds the weight and the bias of a norm: "model.norm" gives model.norm.weight and model.norm.bias.
void name_norm(TensorNames& names, const std::string& name, const std::string& file) {
  names[name] = file + ".weight";
  names[name + ".bias"] = file + ".bias";
}

// --- BERT (Devlin et al. 2019): learned positions; the sum after every block is normed; of a pair
// of segments only the first is used. ---

void parse_bert(const ConfigReader& reader, ModelConfig& config) {
  reader.require_text("position_embedding_type", {"absolute"});
  reader.require_flag("is_decoder", false);
  parse_encoder_keys(reader, config, "layer_norm_eps", 1e-12, "hidden_act");
  config.positions = PositionKind::learned;
  config.gated_mlp = false;
  config.qkv_bias = config.out_bias = config.mlp_bias = true;
  config.prediction_bias = config.head_bias = config.norm_after = true;
  config.token_types = reader.integer("type_vocab_size", 1, kMaxVocab, 2);
}

void print_bert(const ModelConfig& config, Json& object) {
  object["architectures"] = {"BertForMaskedLM"};
  print_encoder_keys(config, object, "layer_norm_eps");
  if (!object.contains("hidden_act")) object["hidden_act"] = print_activation(config.activation);
  object["type_vocab_size"] = config.token_types;
}

std::vector<ParamSpec> bert_params(const ModelConfig& config) {
  const std::string table = "bert.embeddings.", layer = "bert.encoder.layer.{}.",
                    head = "cls.predictions.";
  TensorNames names;
  names["embedding"] = table + "word_embeddings.weight";
  names["positions"] = table + "position_embeddings.weight";
  names["token_types"] = table + "token_type_embeddings.weight";
  name_norm(names, "embedding_norm", table + "LayerNorm");
  names["q"] = layer + "attention.self.query.weight";
  names["k"] = layer + "attention.self.key.weight";
  names["v"] = layer + "attention.self.value.weight";
  names["out"] = layer + "attention.output.dense.weight";
  name_norm(names, "attention_norm", layer + "attention.output.LayerNorm");
  names["up"] = layer + "intermediate.dense.weight";
  names["down"] = layer + "output.dense.weight";
  name_norm(names, "mlp_norm", layer + "output.LayerNorm");
  names["prediction"] = head + "transform.dense.weight";
  name_norm(names, "prediction_norm", head + "transform.LayerNorm");
  names["head"] = head + "decoder.weight";
  names["head.bias"] = head + (config.tie_embeddings ? "bias" : "decoder.bias");
  return transformer_params(config, names);
}

// --- ModernBERT (Warner et al. 2024): rotary positions, gated networks, no biases. Every third
// layer sees everything; the others have a window around each token and another theta. ---

constexpr const char *kLocal = "sliding_attention", *kGlobal = "full_attention";
constexpr double kGlobalTheta = 160000, kLocalTheta = 10000;

// Returns by layer whether it has a window. transformers 5 lists the layers. In transformers 4
// every n-th layer has no window.
std::vector<bool> local_layers(const ConfigReader& reader, int64_t layers) {
  std::vector<bool> local;
  const int64_t every = reader.integer("global_attn_every_n_layers", 1, kMaxLayers, 3);
  for (int64_t layer = 0; layer < layers; ++layer) local.push_back(layer % every != 0);
  if (!reader.has("layer_types")) return local;
  const std::string expected =
      fmt::format("a list of {} times \"{}\" or \"{}\"", layers, kLocal, kGlobal);
  const Json& list = reader.object().at("layer_types");
  if (!list.is_array() || static_cast<int64_t>(list.size()) != layers)
    reader.bad("layer_types", expected);
  for (size_t layer = 0; layer < list.size(); ++layer) {
    if (list[layer] != kLocal && list[layer] != kGlobal) reader.bad("layer_types", expected);
    local[layer] = list[layer] == kLocal;
  }
  return local;
}

double theta_of(const ConfigReader& reader, const char* old_word, const char* kind,
                double otherwise) {
  if (!reader.has("rope_parameters")) return reader.number(old_word, 1e-3, 1e15, otherwise);
  const ConfigReader own = reader.child("rope_parameters").child(kind);
  own.require_text("rope_type", {"default"});
  return own.number("rope_theta", 1e-3, 1e15, otherwise);
}

void parse_modernbert(const ConfigReader& reader, ModelConfig& config) {
  parse_encoder_keys(reader, config, "norm_eps", 1e-5, "hidden_activation");
  config.prediction_activation = parse_activation(reader, "classifier_activation", "gelu");
  config.norm_bias = reader.flag("norm_bias", false);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.mlp_bias = reader.flag("mlp_bias", false);
  config.prediction_bias = reader.flag("classifier_bias", false);
  config.head_bias = reader.flag("decoder_bias", true);
  config.first_norm = false; // a first norm would norm the normed embedding again
  config.sliding = local_layers(reader, config.layers);
  config.window = reader.integer("local_attention", 0, kMaxPositions, 128) / 2 + 1;
  config.window_both_sides = true;
  config.rope.theta = theta_of(reader, "global_rope_theta", kGlobal, kGlobalTheta);
  config.sliding_theta = theta_of(reader, "local_rope_theta", kLocal, kLocalTheta);
}

void print_modernbert(const ModelConfig& config, Json& object) {
  object["architectures"] = {"ModernBertForMaskedLM"};
  print_encoder_keys(config, object, "norm_eps");
  // Several spellings mean one function; the spelling of the file stays.
  if (!object.contains("hidden_activation"))
    object["hidden_activation"] = print_activation(config.activation);
  if (!object.contains("classifier_activation"))
    object["classifier_activation"] = print_activation(config.prediction_activation);
  object["norm_bias"] = config.norm_bias;
  object["attention_bias"] = config.qkv_bias;
  object["mlp_bias"] = config.mlp_bias;
  object["classifier_bias"] = config.prediction_bias;
  object["decoder_bias"] = config.head_bias;
  if (!object.contains("local_attention")) object["local_attention"] = 2 * (config.window - 1);
  Json types = Json::array();
  for (const bool sliding : config.sliding) types.push_back(sliding ? kLocal : kGlobal);
  object["layer_types"] = types;
  if (object.contains("rope_parameters")) {
    object["rope_parameters"] = {
        {kGlobal, {{"rope_type", "default"}, {"rope_theta", config.rope.theta}}},
        {kLocal, {{"rope_type", "default"}, {"rope_theta", config.sliding_theta}}}};
  } else {
    object["global_rope_theta"] = config.rope.theta;
    object["local_rope_theta"] = config.sliding_theta;
  }
}

std::vector<ParamSpec> modernbert_params(const ModelConfig& config) {
  const std::string layer = "model.layers.{}.";
  TensorNames names;
  names["embedding"] = "model.embeddings.tok_embeddings.weight";
  const auto name_own = [&](const std::string& name, const std::string& file) {
    if (config.norm_bias) return name_norm(names, name, file);
    names[name] = file + ".weight";
  };
  name_own("embedding_norm", "model.embeddings.norm");
  name_own("attention_norm", layer + "attn_norm");
  names["qkv"] = layer + "attn.Wqkv.weight";
  names["out"] = layer + "attn.Wo.weight";
  name_own("mlp_norm", layer + "mlp_norm");
  names["gate_up"] = layer + "mlp.Wi.weight";
  names["down"] = layer + "mlp.Wo.weight";
  name_own("norm", "model.final_norm");
  names["prediction"] = "head.dense.weight";
  name_own("prediction_norm", "head.norm");
  names["head"] = "decoder.weight";
  names["head.bias"] = "decoder.bias";
  return transformer_params(config, names);
}

// --- dllm-jax ("dllm_bert") ---

void parse_dllm_bert(const ConfigReader& reader, ModelConfig& config) {
  const char* eps = reader.has("layer_norm_eps") ? "layer_norm_eps" : "rms_norm_eps";
  parse_encoder_keys(reader, config, eps, 1e-5, "hidden_act");
  const int64_t kv_heads = reader.integer("num_key_value_heads", -kMaxSize, kMaxSize, 0);
  if (kv_heads > 0) config.kv_heads = kv_heads;
  config.qk_norm = reader.flag("use_qk_norm", reader.flag("qk_layernorm", false));
  if (config.activation == "gelu") config.activation = "gelu_tanh"; // the default of jax.nn.gelu
  config.positions = PositionKind::learned;
  config.gated_mlp = false;
  config.qkv_bias = config.out_bias = reader.flag("use_bias", reader.flag("attention_bias", true));
  config.mlp_bias = config.prediction_bias = true;
}

void print_dllm_bert(const ModelConfig& config, Json& object) {
  print_encoder_keys(config, object, "layer_norm_eps");
  object["num_key_value_heads"] = config.kv_heads;
  object["use_bias"] = config.qkv_bias;
  object["use_qk_norm"] = config.qk_norm;
  if (!object.contains("hidden_act")) object["hidden_act"] = print_activation(config.activation);
}

std::vector<ParamSpec> dllm_bert_params(const ModelConfig& config) {
  const std::string layer = "model.layers.{}.";
  TensorNames names = llama_names();
  names["positions"] = "model.position_embeddings.weight";
  name_norm(names, "embedding_norm", "model.embed_norm");
  name_norm(names, "attention_norm", layer + "input_layernorm");
  name_norm(names, "mlp_norm", layer + "post_attention_layernorm");
  names["up"] = layer + "mlp.fc1.weight";
  names["down"] = layer + "mlp.fc2.weight";
  name_norm(names, "norm", "model.norm");
  names["prediction"] = "mlm_dense.weight";
  name_norm(names, "prediction_norm", "mlm_norm");
  return transformer_params(config, names);
}

} // namespace

extern const Family kBert;
const Family kBert = {"bert", {"bert"}, {}, parse_bert, print_bert, bert_params};
extern const Family kModernBert;
const Family kModernBert = {"modernbert",     {"modernbert"},   {},
                            parse_modernbert, print_modernbert, modernbert_params};
extern const Family kDllmBert;
const Family kDllmBert = {"dllm-bert",     {"dllm_bert"},   {},
                          parse_dllm_bert, print_dllm_bert, dllm_bert_params};

} // namespace dllm::model

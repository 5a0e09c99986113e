// Qwen3-Next (Hugging Face "qwen3_next") and the text models of Qwen3.5, dense ("qwen3_5_text") or
// with experts ("qwen3_5_moe_text"). They are also read from folders with a vision tower
// ("qwen3_5", "qwen3_5_moe"), which is not read. Layers are of kind gated_delta; every fourth layer
// is attention with a gate and partial rotary positions. Norms multiply by 1 + weight.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr const char *kLinear = "linear_attention", *kFullAttention = "full_attention";

std::vector<std::string> parse_layer_types(const ConfigReader& reader, int64_t layers) {
  std::vector<std::string> mixers;
  if (!reader.has("layer_types")) {
    const int64_t interval = reader.integer("full_attention_interval", 1, kMaxLayers, 4);
    for (int64_t layer = 0; layer < layers; ++layer)
      mixers.emplace_back((layer + 1) % interval == 0 ? kAttention.name : kGatedDelta.name);
    return mixers;
  }
  const std::string expected =
      fmt::format("a list of {} times \"{}\" or \"{}\"", layers, kLinear, kFullAttention);
  const Json& list = reader.object().at("layer_types");
  if (!list.is_array() || static_cast<int64_t>(list.size()) != layers)
    reader.bad("layer_types", expected);
  for (const Json& item : list) {
    if (item != kLinear && item != kFullAttention) reader.bad("layer_types", expected);
    mixers.emplace_back(item == kLinear ? kGatedDelta.name : kAttention.name);
  }
  return mixers;
}

void parse_hybrid_keys(const ConfigReader& reader, ModelConfig& config) {
  Json words = reader.object();
  if (!words.contains("partial_rotary_factor")) words["partial_rotary_factor"] = 0.25;
  parse_llama_keys(ConfigReader(words, reader.file()), config);
  config.head_dim = reader.integer("head_dim", 1, kMaxSize, 256);
  config.qkv_bias = config.out_bias = reader.flag("attention_bias", false);
  config.tie_embeddings = reader.flag("tie_word_embeddings", config.tie_embeddings);
  config.qk_norm = config.centered_norms = config.attention_gate = true;
  GatedDeltaConfig& delta = config.gated_delta;
  delta.key_heads = reader.integer("linear_num_key_heads", 1, kMaxSize, 16);
  delta.value_heads = reader.integer("linear_num_value_heads", 1, kMaxSize, 32);
  delta.key_dim = reader.integer("linear_key_head_dim", 1, kMaxSize, 128);
  delta.value_dim = reader.integer("linear_value_head_dim", 1, kMaxSize, 128);
  delta.width = reader.integer("linear_conv_kernel_dim", 1, 64, 4);
  if (delta.value_heads % delta.key_heads != 0) {
    reader.bad("linear_num_value_heads",
               fmt::format("a multiple of the {} linear_num_key_heads", delta.key_heads));
  }
  if (delta.key_size() > kMaxSize || delta.value_size() > kMaxSize)
    reader.bad("linear_num_value_heads", fmt::format("at most {} channels", kMaxSize));
  config.mixers = parse_layer_types(reader, config.layers);
}

void print_hybrid_keys(const ModelConfig& config, Json& object) {
  print_llama_keys(config, object);
  object["attention_bias"] = config.qkv_bias;
  const GatedDeltaConfig& delta = config.gated_delta;
  object["linear_num_key_heads"] = delta.key_heads;
  object["linear_num_value_heads"] = delta.value_heads;
  object["linear_key_head_dim"] = delta.key_dim;
  object["linear_value_head_dim"] = delta.value_dim;
  object["linear_conv_kernel_dim"] = delta.width;
  Json types = Json::array();
  for (const std::string& mixer : config.mixers)
    types.push_back(mixer == kAttention.name ? kFullAttention : kLinear);
  object["layer_types"] = types;
}

void add_delta_names(TensorNames& names, const std::string& layer) {
  const std::string delta = layer + "linear_attn.";
  names["delta_conv"] = delta + "conv1d.weight";
  names["delta_rate"] = delta + "A_log";
  names["delta_step"] = delta + "dt_bias";
  names["delta_norm"] = delta + "norm.weight";
  names["delta_out"] = delta + "out_proj.weight";
}

// --- Qwen3-Next: every layer has experts, and one matrix holds the projections of a linear layer.
// ---

void parse_qwen_hybrid_experts(const ConfigReader& reader, ModelConfig& config, int64_t count,
                               int64_t per_token) {
  ExpertConfig& experts = config.experts;
  experts.count = reader.integer("num_experts", 1, kMaxSize, count);
  experts.per_token =
      reader.integer("num_experts_per_tok", 1, experts.count, std::min(per_token, experts.count));
  experts.intermediate = reader.integer("moe_intermediate_size", 1, kMaxSize, 512);
  experts.shared = reader.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  experts.shared_gate = true;
  experts.normalize = reader.flag("norm_topk_prob", true);
  config.sparse = parse_sparse_layers(reader, config.layers);
}

void parse_qwen3_next(const ConfigReader& reader, ModelConfig& config) {
  parse_hybrid_keys(reader, config);
  parse_qwen_hybrid_experts(reader, config, 512, 10);
}

void print_experts(const ModelConfig& config, Json& object) {
  object["num_experts"] = config.experts.count;
  object["num_experts_per_tok"] = config.experts.per_token;
  object["moe_intermediate_size"] = config.experts.intermediate;
  object["shared_expert_intermediate_size"] = config.experts.shared;
}

void print_qwen3_next(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"Qwen3NextForCausalLM"};
  print_hybrid_keys(config, object);
  print_experts(config, object);
  object["norm_topk_prob"] = config.experts.normalize;
  print_sparse_layers(config.sparse, object);
}

std::vector<ParamSpec> qwen3_next_params(const ModelConfig& config) {
  const std::string layer = "model.layers.{}.";
  TensorNames names = expert_names();
  add_delta_names(names, layer);
  names["delta_qkvz"] = layer + "linear_attn.in_proj_qkvz.weight";
  names["delta_ba"] = layer + "linear_attn.in_proj_ba.weight";
  return transformer_params(config, names);
}

// --- Qwen3.5: each projection of a linear layer has a matrix, and one tensor holds gate and up of
// all experts of a layer. ---

bool is_nested(const ModelConfig& config) {
  return config.model_type == "qwen3_5" || config.model_type == "qwen3_5_moe";
}
bool has_experts(const ModelConfig& config) {
  return config.model_type.starts_with("qwen3_5_moe");
}

void parse_qwen3_5(const ConfigReader& reader, ModelConfig& config) {
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  const ConfigReader words = is_nested(config) ? reader.child("text_config") : reader;
  if (!has_experts(config)) return parse_hybrid_keys(words, config);
  Json all = words.object();
  // The width of a dense layer. These models have no dense layers.
  if (!all.contains("intermediate_size"))
    all["intermediate_size"] = words.integer("moe_intermediate_size", 1, kMaxSize, 512);
  parse_hybrid_keys(ConfigReader(all, words.file()), config);
  parse_qwen_hybrid_experts(words, config, 256, 8);
  config.experts.joined = true;
}

void print_qwen3_5(const ModelConfig& config, Json& object) {
  if (is_nested(config))
    object["tie_word_embeddings"] = config.tie_embeddings;
  else if (!object.contains("architectures"))
    object["architectures"] = {has_experts(config) ? "Qwen3_5MoeForCausalLM"
                                                   : "Qwen3_5ForCausalLM"};
  Json& words = is_nested(config) ? object["text_config"] : object;
  print_hybrid_keys(config, words);
  if (has_experts(config)) print_experts(config, words);
}

std::vector<ParamSpec> qwen3_5_params(const ModelConfig& config) {
  const std::string layer = "model.layers.{}.";
  TensorNames names = has_experts(config) ? expert_names() : llama_names();
  if (has_experts(config)) {
    names["expert_gate_up"] = layer + "mlp.experts.gate_up_proj";
    names["expert_down"] = layer + "mlp.experts.down_proj";
  }
  add_delta_names(names, layer);
  names["delta_qkv"] = layer + "linear_attn.in_proj_qkv.weight";
  names["delta_z"] = layer + "linear_attn.in_proj_z.weight";
  names["delta_b"] = layer + "linear_attn.in_proj_b.weight";
  names["delta_a"] = layer + "linear_attn.in_proj_a.weight";
  if (is_nested(config)) {
    for (auto& [name, file] : names.files) {
      if (file.starts_with("model.")) file.insert(6, "language_model.");
    }
  }
  return transformer_params(config, names);
}

} // namespace

extern const Family kQwen3Next;
const Family kQwen3Next = {"qwen3-next",     {"qwen3_next"},   {},
                           parse_qwen3_next, print_qwen3_next, qwen3_next_params};
extern const Family kQwen35;
const Family kQwen35 = {"qwen3.5",
                        {"qwen3_5_text", "qwen3_5", "qwen3_5_moe_text", "qwen3_5_moe"},
                        {},
                        parse_qwen3_5,
                        print_qwen3_5,
                        qwen3_5_params};

} // namespace dllm::model

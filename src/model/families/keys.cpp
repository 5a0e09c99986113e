#include "model/families/keys.h"
#include "base/error.h"
#include "model/config.h"
#include "model/layers/layer_kind.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

struct ActivationName {
  const char* file;
  const char* ours;
};

// The first spelling is the one that is printed.
constexpr ActivationName kActivations[] = {
    {"silu", "silu"},          {"swish", "silu"},
    {"gelu", "gelu"},          {"gelu_pytorch_tanh", "gelu_tanh"},
    {"gelu_new", "gelu_tanh"}, {"gelu_fast", "gelu_tanh"},
    {"relu", "relu"},
};

} // namespace

std::string parse_activation(const ConfigReader& reader, const char* key,
                             const std::string& otherwise) {
  const std::string found = reader.text(key, otherwise);
  for (const ActivationName& name : kActivations) {
    if (found == name.file) return name.ours;
  }
  fail(Code::unimplemented, "{}: {} = {} is not supported yet", reader.file(), key,
       found.substr(0, 60));
}

std::string print_activation(const std::string& ours) {
  for (const ActivationName& name : kActivations) {
    if (ours == name.ours) return name.file;
  }
  return ours;
}

void parse_llama_keys(const ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", 1, kMaxVocab);
  config.hidden_size = reader.integer("hidden_size", 1, kMaxSize);
  config.layers = reader.integer("num_hidden_layers", 1, kMaxLayers);
  config.heads = reader.integer("num_attention_heads", 1, kMaxSize);
  config.kv_heads = reader.integer("num_key_value_heads", 1, kMaxSize, config.heads);
  if (!reader.has("head_dim") && config.hidden_size % config.heads != 0) {
    reader.bad("num_attention_heads",
               fmt::format("a divisor of hidden_size {}", config.hidden_size));
  }
  config.head_dim = reader.integer("head_dim", 1, kMaxSize, config.hidden_size / config.heads);
  config.intermediate_size = reader.integer("intermediate_size", 1, kMaxSize);
  config.max_positions = reader.integer("max_position_embeddings", 1, kMaxPositions, 2048);
  config.norm_eps = reader.number("rms_norm_eps", 0, 1, 1e-6);
  config.init_std = reader.number("initializer_range", 0, 100, 0.02);
  config.activation = parse_activation(reader, "hidden_act", "silu");
  config.rope = parse_rope(reader);
  // Families with windows list the kind of each layer.
  reader.require_flag("use_sliding_window", false);
}

void parse_sdar_blocks(const ConfigReader& reader, ModelConfig& config) {
  config.attention = AttentionKind::block_causal;
  config.block_length = reader.integer("block_size", 1, kMaxPositions, 4);
}

void print_llama_keys(const ModelConfig& config, Json& object) {
  object["vocab_size"] = config.vocab_size;
  object["hidden_size"] = config.hidden_size;
  object["num_hidden_layers"] = config.layers;
  object["num_attention_heads"] = config.heads;
  object["num_key_value_heads"] = config.kv_heads;
  object["head_dim"] = config.head_dim;
  object["intermediate_size"] = config.intermediate_size;
  object["max_position_embeddings"] = config.max_positions;
  object["rms_norm_eps"] = config.norm_eps;
  object["initializer_range"] = config.init_std;
  // Several spellings mean one function; the spelling of the file stays.
  if (!object.contains("hidden_act")) object["hidden_act"] = print_activation(config.activation);
  object["tie_word_embeddings"] = config.tie_embeddings;
  print_rope(config, object);
}

std::vector<bool> parse_layer_flags(const ConfigReader& reader, const char* key, int64_t layers) {
  const std::string expected = fmt::format("a list of {} numbers, 0: a dense layer", layers);
  if (!reader.has(key)) reader.bad(key, expected);
  const Json& list = reader.object().at(key);
  const bool fits = list.is_array() && static_cast<int64_t>(list.size()) == layers &&
                    std::all_of(list.begin(), list.end(), [](const Json& item) {
                      return item.is_number_integer() || item.is_boolean();
                    });
  if (!fits) reader.bad(key, expected);
  std::vector<bool> flags;
  for (const Json& item : list)
    flags.push_back(item.is_boolean() ? item.get<bool>() : item.get<int64_t>() != 0);
  return flags;
}

std::vector<bool> parse_sparse_layers(const ConfigReader& reader, int64_t layers) {
  const int64_t step = reader.integer("decoder_sparse_step", 1, kMaxLayers, 1);
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < layers; ++layer) sparse.push_back((layer + 1) % step == 0);
  if (!reader.has("mlp_only_layers")) return sparse;
  const Json& dense = reader.object().at("mlp_only_layers");
  const std::string expected = fmt::format("a list of layers from 0 to {}", layers - 1);
  if (!dense.is_array()) reader.bad("mlp_only_layers", expected);
  for (const Json& item : dense) {
    const int64_t layer = item.is_number_integer() ? item.get<int64_t>() : -1;
    if (layer < 0 || layer >= layers) reader.bad("mlp_only_layers", expected);
    sparse[static_cast<size_t>(layer)] = false;
  }
  return sparse;
}

void print_sparse_layers(const std::vector<bool>& sparse, Json& object) {
  object["decoder_sparse_step"] = 1;
  Json dense = Json::array();
  for (size_t layer = 0; layer < sparse.size(); ++layer) {
    if (!sparse[layer]) dense.push_back(layer);
  }
  object["mlp_only_layers"] = dense;
}

std::vector<bool> sparse_after(int64_t dense, int64_t layers) {
  std::vector<bool> sparse(static_cast<size_t>(layers), true);
  std::fill_n(sparse.begin(), std::min(dense, layers), false);
  return sparse;
}

Json print_layer_flags(const std::vector<bool>& flags) {
  Json list = Json::array();
  for (const bool flag : flags) list.push_back(flag ? 1 : 0);
  return list;
}

TensorNames expert_names() {
  const std::string mlp = "model.layers.{}.mlp.";
  TensorNames names = llama_names();
  names["router"] = mlp + "gate.weight";
  names["expert_gate"] = mlp + "experts.[].gate_proj.weight";
  names["expert_up"] = mlp + "experts.[].up_proj.weight";
  names["expert_down"] = mlp + "experts.[].down_proj.weight";
  names["shared_router"] = mlp + "shared_expert_gate.weight";
  names["shared_gate"] = mlp + "shared_expert.gate_proj.weight";
  names["shared_up"] = mlp + "shared_expert.up_proj.weight";
  names["shared_down"] = mlp + "shared_expert.down_proj.weight";
  return names;
}

TensorNames llama_names() {
  const std::string layer = "model.layers.{}.";
  TensorNames names;
  names["embedding"] = "model.embed_tokens.weight";
  names["norm"] = "model.norm.weight";
  names["head"] = "lm_head.weight";
  names["attention_norm"] = layer + "input_layernorm.weight";
  names["mlp_norm"] = layer + "post_attention_layernorm.weight";
  names["q"] = layer + "self_attn.q_proj.weight";
  names["k"] = layer + "self_attn.k_proj.weight";
  names["v"] = layer + "self_attn.v_proj.weight";
  names["out"] = layer + "self_attn.o_proj.weight";
  names["q_norm"] = layer + "self_attn.q_norm.weight";
  names["k_norm"] = layer + "self_attn.k_norm.weight";
  names["gate"] = layer + "mlp.gate_proj.weight";
  names["up"] = layer + "mlp.up_proj.weight";
  names["down"] = layer + "mlp.down_proj.weight";
  return names;
}

std::vector<ParamSpec> transformer_params(const ModelConfig& config, const TensorNames& names) {
  const int64_t hidden = config.hidden_size;
  TensorNames all = names;
  for (const HeadConfig& head : config.other_heads) {
    if (!head.file.empty()) all[head.weight] = head.file + ".weight";
  }
  ParamTable table(config, std::move(all));
  table.add("embedding", ParamRole::embedding, {config.vocab_size, hidden});
  if (config.positions == PositionKind::learned)
    table.add("positions", ParamRole::positions, {config.max_positions, hidden});
  if (config.token_types > 0)
    table.add("token_types", ParamRole::positions, {config.token_types, hidden});
  if (config.embedding_norm) table.norm("embedding_norm", hidden);
  if (config.canvas) {
    table.norm("conditioning_norm", hidden);
    table.matrix("conditioning_gate", config.intermediate_size, hidden);
    table.matrix("conditioning_up", config.intermediate_size, hidden);
    table.matrix("conditioning_down", hidden, config.intermediate_size);
  }
  for (const LayerRun& run : layer_runs(config)) add_layer_params(table, config, run);
  if (!config.norm_after) table.norm("norm", hidden);
  if (config.prediction_layer) {
    table.matrix("prediction", hidden, hidden, config.prediction_bias);
    table.norm("prediction_norm", hidden);
  }
  if (config.head_bias)
    table.add(config.tie_embeddings ? "embedding.bias" : "head.bias", ParamRole::bias,
              {config.vocab_size}, "head.bias");
  if (!config.tie_embeddings) table.matrix("head", config.vocab_size, hidden);
  for (const HeadConfig& head : config.other_heads)
    table.matrix(head.weight, head.rows, hidden, head.bias);
  return table.take();
}

} // namespace dllm::model

// LLaDA 8B (Nie et al. 2025). It has Llama's layers with the tensor names of OLMo, and every token
// sees every token.

#include "base/error.h"
#include "model/config.h"
#include "model/families/keys.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

// Switches of the original code. Its published models have these values.
void require_llada_published_form(const ConfigReader& reader) {
  reader.require_text("block_type", {"llama"});
  reader.require_text("layer_norm_type", {"rms"});
  reader.require_flag("alibi", false);
  reader.require_flag("rope", true);
  reader.require_flag("attention_layer_norm", false);
  reader.require_flag("bias_for_layer_norm", false);
  reader.require_flag("input_emb_norm", false);
  reader.require_flag("scale_logits", false);
  reader.require_flag("multi_query_attention", false);
  reader.require_flag("layer_norm_with_affine", true);
}

void parse_llada(const ConfigReader& reader, ModelConfig& config) {
  require_llada_published_form(reader);
  const int64_t tokens = reader.integer("vocab_size", 1, kMaxVocab);
  // Rows beyond vocab_size are padding of the tables; logits have these rows too.
  config.vocab_size = reader.integer("embedding_size", tokens, kMaxVocab, tokens);
  config.hidden_size = reader.integer("d_model", 1, kMaxSize);
  config.layers = reader.integer("n_layers", 1, kMaxLayers);
  config.heads = reader.integer("n_heads", 1, kMaxSize);
  config.kv_heads = reader.integer("n_kv_heads", 1, kMaxSize, config.heads);
  if (config.hidden_size % config.heads != 0) {
    reader.bad("n_heads", fmt::format("a divisor of d_model {}", config.hidden_size));
  }
  config.head_dim = config.hidden_size / config.heads;
  const auto ratio = reader.integer("mlp_ratio", 1, 1024, 4);
  config.intermediate_size = reader.integer("mlp_hidden_size", 1, kMaxSize,
                                            std::min(kMaxSize, ratio * config.hidden_size));
  config.max_positions = reader.integer("max_sequence_length", 1, kMaxPositions, 4096);
  config.norm_eps = reader.number("rms_norm_eps", 0, 1, 1e-5);
  config.init_std = reader.number("init_std", 0, 100, 0.02);
  config.activation = parse_activation(reader, "activation_type", "silu");
  config.rope = parse_rope(reader);
  config.tie_embeddings = reader.flag("weight_tying", false);
  const bool bias = reader.flag("include_bias", false);
  config.qkv_bias = bias || reader.flag("include_qkv_bias", false);
  config.out_bias = config.mlp_bias = bias;
  config.attention = AttentionKind::bidirectional;
}

void print_llada(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"LLaDAModelLM"};
  const int64_t tokens = object.value("vocab_size", config.vocab_size);
  object["vocab_size"] = std::min(tokens, config.vocab_size);
  object["embedding_size"] = config.vocab_size;
  object["d_model"] = config.hidden_size;
  object["n_layers"] = config.layers;
  object["n_heads"] = config.heads;
  object["n_kv_heads"] = config.kv_heads;
  object["mlp_hidden_size"] = config.intermediate_size;
  object["max_sequence_length"] = config.max_positions;
  object["rms_norm_eps"] = config.norm_eps;
  object["init_std"] = config.init_std;
  if (!object.contains("activation_type"))
    object["activation_type"] = print_activation(config.activation);
  object["weight_tying"] = config.tie_embeddings;
  object["include_bias"] = config.out_bias;
  object["include_qkv_bias"] = config.qkv_bias;
  object["rope_theta"] = config.rope.theta;
}

std::vector<ParamSpec> llada_params(const ModelConfig& config) {
  const std::string layer = "model.transformer.blocks.{}.";
  TensorNames names;
  names["embedding"] = "model.transformer.wte.weight";
  names["norm"] = "model.transformer.ln_f.weight";
  names["head"] = "model.transformer.ff_out.weight";
  names["attention_norm"] = layer + "attn_norm.weight";
  names["mlp_norm"] = layer + "ff_norm.weight";
  names["q"] = layer + "q_proj.weight";
  names["k"] = layer + "k_proj.weight";
  names["v"] = layer + "v_proj.weight";
  names["out"] = layer + "attn_out.weight";
  names["gate"] = layer + "ff_proj.weight";
  names["up"] = layer + "up_proj.weight";
  names["down"] = layer + "ff_out.weight";
  return transformer_params(config, names);
}

} // namespace

extern const Family kLlada;
const Family kLlada = {"llada", {"llada"}, {"llada"}, parse_llada, print_llada, llada_params};

} // namespace dllm::model

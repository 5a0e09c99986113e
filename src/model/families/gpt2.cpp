// GPT-2 (Radford et al. 2019; Hugging Face "gpt2"). It has LayerNorm, learned positions, one matrix
// for q, k and v, matrices stored as (in, out), and a tied head.

#include "base/error.h"
#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_gpt2(const ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", 1, kMaxVocab, 50257);
  config.hidden_size = reader.integer("n_embd", 1, kMaxSize, 768);
  config.layers = reader.integer("n_layer", 1, kMaxLayers, 12);
  config.heads = config.kv_heads = reader.integer("n_head", 1, kMaxSize, 12);
  if (config.hidden_size % config.heads != 0) {
    reader.bad("n_head", fmt::format("a divisor of n_embd {}", config.hidden_size));
  }
  config.head_dim = config.hidden_size / config.heads;
  config.intermediate_size = reader.integer("n_inner", 1, kMaxSize, 4 * config.hidden_size);
  config.max_positions = reader.integer("n_positions", 1, kMaxPositions, 1024);
  config.norm_eps = reader.number("layer_norm_epsilon", 0, 1, 1e-5);
  config.init_std = reader.number("initializer_range", 0, 100, 0.02);
  config.activation = parse_activation(reader, "activation_function", "gelu_new");
  config.norm = NormKind::layer;
  config.positions = PositionKind::learned;
  config.gated_mlp = false;
  config.qkv_bias = config.out_bias = config.mlp_bias = true;
  config.tie_embeddings = reader.flag("tie_word_embeddings", true);
  if (!reader.flag("scale_attn_weights", true)) config.query_scalar = 1;
  reader.require_flag("scale_attn_by_inverse_layer_idx", false);
  reader.require_flag("add_cross_attention", false);
}

void print_gpt2(const ModelConfig& config, Json& object) {
  object["architectures"] = {"GPT2LMHeadModel"};
  object["vocab_size"] = config.vocab_size;
  object["n_embd"] = config.hidden_size;
  object["n_layer"] = config.layers;
  object["n_head"] = config.heads;
  object["n_inner"] = config.intermediate_size;
  object["n_positions"] = config.max_positions;
  object["layer_norm_epsilon"] = config.norm_eps;
  object["initializer_range"] = config.init_std;
  if (!object.contains("activation_function"))
    object["activation_function"] =
        config.activation == "gelu_tanh" ? "gelu_new" : print_activation(config.activation);
  object["tie_word_embeddings"] = config.tie_embeddings;
  object["scale_attn_weights"] = config.query_scalar == 0;
}

std::vector<ParamSpec> gpt2_params(const ModelConfig& config) {
  const std::string layer = "transformer.h.{}.";
  TensorNames names;
  names["embedding"] = "transformer.wte.weight";
  names["positions"] = "transformer.wpe.weight";
  names["norm"] = "transformer.ln_f.weight";
  names["norm.bias"] = "transformer.ln_f.bias";
  names["head"] = "lm_head.weight";
  names["attention_norm"] = layer + "ln_1.weight";
  names["attention_norm.bias"] = layer + "ln_1.bias";
  names["mlp_norm"] = layer + "ln_2.weight";
  names["mlp_norm.bias"] = layer + "ln_2.bias";
  names["qkv"] = layer + "attn.c_attn.weight";
  names["out"] = layer + "attn.c_proj.weight";
  names["up"] = layer + "mlp.c_fc.weight";
  names["down"] = layer + "mlp.c_proj.weight";
  names.transpose = true;
  std::vector<ParamSpec> specs = transformer_params(config, names);
  for (ParamSpec& spec : specs) {
    // An untied head is an ordinary linear layer: (out, in).
    if (spec.name == "head") spec.pieces.front().transpose = false;
    spec.residual_out = spec.name == "layers.out" || spec.name == "layers.down";
  }
  return specs;
}

} // namespace

extern const Family kGpt2;
const Family kGpt2 = {"gpt2", {"gpt2"}, {}, parse_gpt2, print_gpt2, gpt2_params, "GPT2LMHeadModel"};

} // namespace dllm::model

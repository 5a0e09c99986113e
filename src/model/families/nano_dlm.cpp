// nano-dlm (jaisidhsingh/nano-dlm, src/model.py). Its blocks have RMSNorm without time, or adaptive
// LayerNorm with an embedding of the noise level. Matrices are stored as (in, out), the head is
// untied, and every token sees every token.

#include "base/error.h"
#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_nano(const ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", 1, kMaxVocab, 50304);
  config.hidden_size = reader.integer("d_model", 1, kMaxSize, 512);
  config.layers = reader.integer("n_layers", 1, kMaxLayers, 8);
  config.heads = config.kv_heads = reader.integer("n_heads", 1, kMaxSize, 8);
  if (config.hidden_size % config.heads != 0) {
    reader.bad("n_heads", fmt::format("a divisor of d_model {}", config.hidden_size));
  }
  config.head_dim = config.hidden_size / config.heads;
  const int64_t inner = reader.integer("d_ff", -1, kMaxSize, 2048);
  config.intermediate_size = inner > 0 ? inner : 4 * config.hidden_size;
  config.max_positions = reader.integer("seq_len", 1, kMaxPositions, 1024);
  config.allows_longer_rows = true;
  config.norm_eps = 1e-6;
  config.activation = "gelu_tanh";
  config.gated_mlp = false;
  config.out_bias = config.mlp_bias = true;
  config.time_conditioning = reader.flag("time_conditioning", false);
  config.time_steps = reader.integer("T", 1, kMaxPositions, 1000);
  config.attention = AttentionKind::bidirectional;
}

void print_nano(const ModelConfig& config, Json& object) {
  object["vocab_size"] = config.vocab_size;
  object["seq_len"] = config.max_positions;
  object["n_layers"] = config.layers;
  object["n_heads"] = config.heads;
  object["d_model"] = config.hidden_size;
  object["d_ff"] = config.intermediate_size;
  object["T"] = config.time_steps;
  object["time_conditioning"] = config.time_conditioning;
}

ParamSpec spec(const std::string& name, const std::string& logical, ParamRole role, Shape element,
               int64_t layers) {
  ParamSpec made;
  made.name = name;
  made.role = role;
  made.layers = layers;
  made.pieces = {{logical, element[0], role == ParamRole::weight}};
  made.element = std::move(element);
  return made;
}

// An adaptive norm: (gamma, beta) = split(time W + b), y = layer_norm * (1 + gamma) + beta.
void use_adaptive_norm(std::vector<ParamSpec>& specs, const ModelConfig& config,
                       const std::string& name, const std::string& logical) {
  const int64_t hidden = config.hidden_size, layers = config.layers;
  const std::string own = "layers." + name;
  specs.push_back(spec(own + ".bias", logical + ".norm.bias", ParamRole::bias, {hidden}, layers));
  specs.push_back(spec(own + ".time", logical + ".proj.kernel", ParamRole::weight,
                       {2 * hidden, 4 * hidden}, layers));
  specs.push_back(
      spec(own + ".time.bias", logical + ".proj.bias", ParamRole::bias, {2 * hidden}, layers));
}

std::vector<ParamSpec> nano_params(const ModelConfig& config) {
  const std::string layer = "blocks.{}.";
  TensorNames names;
  names["embedding"] = "token_emb.embedding";
  names["norm"] = "final_norm.scale";
  names["head"] = "lm_head.kernel";
  names["attention_norm"] =
      layer + (config.time_conditioning ? "adnorm1.norm.scale" : "norm1.scale");
  names["mlp_norm"] = layer + (config.time_conditioning ? "adnorm2.norm.scale" : "norm2.scale");
  names["q"] = layer + "attn.q_proj.kernel";
  names["k"] = layer + "attn.k_proj.kernel";
  names["v"] = layer + "attn.v_proj.kernel";
  names["out"] = layer + "attn.out_proj.kernel";
  names["up"] = layer + "ffn.fc1.kernel";
  names["down"] = layer + "ffn.fc2.kernel";
  names.transpose = true;
  std::vector<ParamSpec> specs = transformer_params(config, names);
  if (!config.time_conditioning) return specs;

  const int64_t hidden = config.hidden_size;
  use_adaptive_norm(specs, config, "attention_norm", layer + "adnorm1");
  use_adaptive_norm(specs, config, "mlp_norm", layer + "adnorm2");
  specs.push_back(spec("time.in", "time_fc1.kernel", ParamRole::weight, {4 * hidden, hidden}, 0));
  specs.push_back(spec("time.in.bias", "time_fc1.bias", ParamRole::bias, {4 * hidden}, 0));
  specs.push_back(
      spec("time.out", "time_fc2.kernel", ParamRole::weight, {4 * hidden, 4 * hidden}, 0));
  specs.push_back(spec("time.out.bias", "time_fc2.bias", ParamRole::bias, {4 * hidden}, 0));
  return specs;
}

} // namespace

extern const Family kNanoDlm;
const Family kNanoDlm = {"nano-dlm", {"nano-dlm"}, {}, parse_nano, print_nano, nano_params};

} // namespace dllm::model

#include "base/error.h"
#include "model/families/transformer.h"
#include "model/rope.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

struct ActivationName {
  const char* file;
  const char* ours;
};

// The first spelling of ours is the one that is printed.
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

std::string print_activation(const ModelConfig& config) {
  for (const ActivationName& name : kActivations) {
    if (config.activation == name.ours) return name.file;
  }
  return config.activation;
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
  // Windows of the masks are drawn per layer in families that come later.
  reader.require_flag("use_sliding_window", false);
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
  // Several spellings mean one function: the file's own stays.
  if (!object.contains("hidden_act")) object["hidden_act"] = print_activation(config);
  object["tie_word_embeddings"] = config.tie_embeddings;
  print_rope(config, object);
}

} // namespace dllm::model

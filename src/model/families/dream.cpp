// Dream 7B (Ye et al. 2025). It has Qwen2's layers, every token sees every token, and the hidden
// state before a token predicts it.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse_dream(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = true;
  config.attention = AttentionKind::bidirectional;
  config.shift = 1;
}

void print_dream(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"DreamModel"};
  print_llama_keys(config, object);
}

std::vector<ParamSpec> dream_params(const ModelConfig& config) {
  return transformer_params(config, llama_names());
}

} // namespace

extern const Family kDream;
const Family kDream = {"dream", {"Dream"}, {"dream"}, parse_dream, print_dream, dream_params};

} // namespace dllm::model

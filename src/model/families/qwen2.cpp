// Qwen2 and Qwen2.5: Llama with biases on q, k and v (Hugging Face "qwen2"). Diffusion models made
// from it are "a2d-qwen2", and Fast-dLLM v2 (Wu et al. 2025, arXiv 2509.26328) with blocks of
// "bd_size" positions.

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace dllm::model {
namespace {

constexpr std::string_view kFastDllm = "Fast_dLLM_Qwen";
constexpr int64_t kFastDllmMaskToken = 151665; // of the published tokenizers of Fast-dLLM v2

void parse_qwen2(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qkv_bias = true;
  if (config.model_type == "a2d-qwen2") config.attention = AttentionKind::bidirectional;
  if (config.model_type != kFastDllm) return;
  config.attention = AttentionKind::block_causal;
  config.block_length = reader.integer("bd_size", 1, kMaxPositions, 32);
  config.shift = 1;
  config.mask_token_id = config.vocab_size > kFastDllmMaskToken ? kFastDllmMaskToken : -1;
}

void print_qwen2(const ModelConfig& config, Json& object) {
  if (config.model_type == "qwen2") object["architectures"] = {"Qwen2ForCausalLM"};
  print_llama_keys(config, object);
  if (config.model_type != kFastDllm) return;
  object["architectures"] = {"Fast_dLLM_QwenForCausalLM"};
  object["bd_size"] = config.block_length;
}

std::vector<ParamSpec> qwen2_params(const ModelConfig& config) {
  return transformer_params(config, llama_names());
}

} // namespace

extern const Family kQwen2;
const Family kQwen2 = {"qwen2",           {"qwen2", "a2d-qwen2", "Fast_dLLM_Qwen"},
                       {"qwen2"},         parse_qwen2,
                       print_qwen2,       qwen2_params,
                       "Qwen2ForCausalLM"};

} // namespace dllm::model

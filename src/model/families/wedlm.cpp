// WeDLM (Tencent 2025), with Qwen2's or Qwen3's layers. Every token sees the tokens before it in
// the order of the input; decoding puts decided tokens first (src/decode/policies/wedlm.cpp).

#include "model/families/keys.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

constexpr int64_t kWedlmMaskToken = 151665; // of the published tokenizers

void parse_wedlm(const ConfigReader& reader, ModelConfig& config) {
  parse_llama_keys(reader, config);
  config.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.qk_norm = reader.flag("qk_norm", false);
  config.qkv_bias = reader.flag("attention_bias", !config.qk_norm);
  config.mask_token_id = config.vocab_size > kWedlmMaskToken ? kWedlmMaskToken : -1;
}

void print_wedlm(const ModelConfig& config, Json& object) {
  object["architectures"] = {"WeDLMForCausalLM"};
  print_llama_keys(config, object);
  object["qk_norm"] = config.qk_norm;
  object["attention_bias"] = config.qkv_bias;
}

std::vector<ParamSpec> wedlm_params(const ModelConfig& config) {
  return transformer_params(config, llama_names());
}

} // namespace

extern const Family kWedlm;
const Family kWedlm = {"wedlm", {"wedlm"}, {}, parse_wedlm, print_wedlm, wedlm_params};

} // namespace dllm::model

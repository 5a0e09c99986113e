// Gemma 2 (Hugging Face "gemma2"): every second layer slides; scores and logits are capped.

#include "model/families/gemma.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

void parse(const ConfigReader& reader, ModelConfig& config) {
  parse_gemma_keys(reader, config, 2);
  config.attention_softcap = parse_softcap(reader, "attn_logit_softcapping", 50);
  config.logit_softcap = parse_softcap(reader, "final_logit_softcapping", 30);
}

void print(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"Gemma2ForCausalLM"};
  print_gemma_keys(config, object);
}

} // namespace

const Family kGemma2 = {"gemma2", {"gemma2"}, {}, parse, print, gemma_params};

} // namespace dllm::model

// This file chooses the shape of a new model of dllm train.

#include "../../objective_facts.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFewPositions = 1024; // of a model that is trained on shorter rows
constexpr int64_t kCanvas = 32; // tokens of a canvas, unless the objective has a block_length

// Returns the config of a model with a canvas of `block` tokens (DiffusionGemma). One layer in four
// attends to the whole prefix, and the experts are small.
Json canvas_config(const Json& plain, int64_t block) {
  Json text = plain;
  for (const char* key : {"model_type", "architectures", "hidden_act", "rope_theta", "dllm"})
    text.erase(key);
  Json kinds = Json::array();
  const int64_t layers = plain["num_hidden_layers"], hidden = plain["hidden_size"];
  for (int64_t i = 0; i < layers; ++i)
    kinds.push_back(i % 4 == 3 || i + 1 == layers ? "full_attention" : "sliding_attention");
  text.update({{"hidden_activation", "gelu_pytorch_tanh"},
               {"layer_types", kinds},
               {"sliding_window", 256},
               {"global_head_dim", plain["head_dim"]},
               {"num_global_key_value_heads", plain["num_key_value_heads"]},
               {"attention_k_eq_v", true},
               {"intermediate_size", hidden},
               {"num_experts", 8},
               {"top_k_experts", 2},
               {"moe_intermediate_size", hidden / 2},
               {"final_logit_softcapping", 30.0},
               {"rope_parameters",
                {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
                 {"full_attention",
                  {{"rope_type", "proportional"},
                   {"rope_theta", 10000.0},
                   {"partial_rotary_factor", 0.25}}}}}});
  return {{"model_type", "diffusion_gemma"},
          {"architectures", {"DiffusionGemmaForBlockDiffusion"}},
          {"canvas_length", block},
          {"text_config", text}};
}

} // namespace

std::string config_from_scratch(const Context& context, int64_t vocabulary, int64_t layers) {
  const int64_t hidden = context.number("hidden");
  const int64_t length = std::stoll(context.option("loader", "length"));
  // Narrow models learn faster with more heads than 64 columns per head give. At width 128 and 4
  // layers the loss is 0.57 bits per byte after 1,500 steps of the quickstart's stories, in place
  // of 0.64.
  const bool is_narrow = hidden >= 128 && hidden < 512;
  const int64_t head_dim = is_narrow ? 32 : 64, heads = hidden / head_dim;
  Json config = {{"model_type", "llama"},
                 {"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", vocabulary},
                 {"hidden_size", hidden},
                 {"intermediate_size", (hidden * 8 / 3 + 31) / 32 * 32},
                 {"num_hidden_layers", layers},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", heads},
                 {"head_dim", head_dim},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", std::max(kFewPositions, length)},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", 10000.0},
                 {"tie_word_embeddings", true},
                 // The products have unit variance; the usual 0.02 is meant for wider models.
                 {"initializer_range", 1.0 / std::sqrt(static_cast<double>(hidden))}};
  const std::string kind = facts_of(context.text("objective")).model;
  if (kind == "canvas") {
    const int64_t block = std::stoll(context.option("objective", "block_length"));
    const int64_t canvas = block > 0 ? block : kCanvas; // after a row
    config["max_position_embeddings"] = std::max(kFewPositions, length + canvas);
    return canvas_config(config, canvas).dump();
  }
  const bool causal = kind == "causal";
  config["dllm"] = {{"attention", causal ? "causal" : "bidirectional"}, {"shift", causal ? 1 : 0}};
  return config.dump();
}

} // namespace dllm::cli

#pragma once
// The pre-norm transformer that most families are: attention, then a (gated) two-layer network,
// each added to the residual stream. Families differ in tensor names and in what ModelConfig
// switches on.

#include "model/families/family.h"

namespace dllm::model {

// Logical names of a family; "" where it has no such tensor. Layer names have "{}" for the layer.
struct TransformerNames {
  std::string embedding, positions, final_norm, final_norm_bias, head;
  std::string attention_norm, attention_norm_bias, mlp_norm, mlp_norm_bias;
  std::string q, k, v, qkv,
      out; // qkv: one tensor holds all three; biases: name with "weight" -> "bias"
  std::string q_norm, k_norm;
  std::string gate, up, down;
  std::string attention_post_norm, mlp_post_norm; // with config.post_norms
  // Of layers with experts: "[]" stands for the expert.
  std::string router, router_bias, expert_gate, expert_up, expert_down;
  std::string shared_gate, shared_up, shared_down;
  bool transpose = false; // matrices are stored (in, out)
};

// Names of the kind Hugging Face's Llama has.
TransformerNames llama_names();
std::vector<ParamSpec> transformer_params(const ModelConfig& config, const TransformerNames& names);
graph::Value transformer_layer(const LayerInputs& inputs, graph::Value hidden);

// The two halves of a layer, on an already normed x; results are not yet added to the residual
// stream.
graph::Value attention_block(const LayerInputs& inputs, graph::Value x);
graph::Value mlp_block(const LayerInputs& inputs, graph::Value x);
// What a token's experts make of it (experts.cpp).
graph::Value expert_block(const LayerInputs& inputs, graph::Value x);
// The factor of a norm's rows: the weight, or 1 + weight.
graph::Value norm_weight(const ModelConfig& config, graph::Value weight);
graph::Value linear_param(const LayerInputs& inputs, graph::Value x, const std::string& name);

// Keys that Llama, Qwen and their relatives share.
void parse_llama_keys(const ConfigReader& reader, ModelConfig& config);
void print_llama_keys(const ModelConfig& config, Json& object);
// "silu", "gelu_new" ... to our names; unimplemented for others.
std::string parse_activation(const ConfigReader& reader, const char* key,
                             const std::string& otherwise);
std::string print_activation(const ModelConfig& config);

} // namespace dllm::model

#pragma once
// What families share: keys of config.json, names of tensors, and the list of parameters, which follows from the config
// and the layer kinds.

#include "model/families/family.h"

#include <string>
#include <vector>

namespace dllm::model {

// Names of the kind Hugging Face's Llama has.
TensorNames llama_names();
std::vector<ParamSpec> transformer_params(const ModelConfig& config, const TensorNames& names);

// Keys that Llama, Qwen and their relatives share.
void parse_llama_keys(const ConfigReader& reader, ModelConfig& config);
void print_llama_keys(const ModelConfig& config, Json& object);
// Of SDAR: blocks of "block_size" positions that see each other and all before.
void parse_sdar_blocks(const ConfigReader& reader, ModelConfig& config);
// "silu", "gelu_new" ... to our names; unimplemented for others.
std::string parse_activation(const ConfigReader& reader, const char* key,
                             const std::string& otherwise);
std::string print_activation(const std::string& ours);

// A list of `layers` numbers, 0: the layer is dense; fails naming the key.
std::vector<bool> parse_layer_flags(const ConfigReader& reader, const char* key, int64_t layers);
// Of Qwen's expert models: every decoder_sparse_step-th layer has experts unless mlp_only_layers lists it.
std::vector<bool> parse_sparse_layers(const ConfigReader& reader, int64_t layers);
void print_sparse_layers(const std::vector<bool>& sparse, Json& object);
// Layers from `dense` on have experts.
std::vector<bool> sparse_after(int64_t dense, int64_t layers);
Json print_layer_flags(const std::vector<bool>& flags); // [0, 1, 1]
// Names of the kind Qwen's expert models have.
TensorNames expert_names();

} // namespace dllm::model

#pragma once
// Shared by families: keys of config.json, names of tensors, and the list of parameters, which
// follows from the config and the layer kinds.

#include "model/families/family.h"

#include <string>
#include <vector>

namespace dllm::model {

// Returns the names of Hugging Face's Llama.
TensorNames llama_names();
std::vector<ParamSpec> transformer_params(const ModelConfig& config, const TensorNames& names);

// Read and write the keys that Llama, Qwen and their relatives share.
void parse_llama_keys(const ConfigReader& reader, ModelConfig& config);
void print_llama_keys(const ModelConfig& config, Json& object);
// Reads the keys of SDAR: positions in a block of "block_size" see each other and all earlier
// positions.
void parse_sdar_blocks(const ConfigReader& reader, ModelConfig& config);
// Converts "silu", "gelu_new" ... to the names in dllm. Fails with unimplemented for other names.
std::string parse_activation(const ConfigReader& reader, const char* key,
                             const std::string& otherwise);
std::string print_activation(const std::string& ours);

// Reads a list of `layers` numbers. 0 means that the layer is dense. Errors name the key.
std::vector<bool> parse_layer_flags(const ConfigReader& reader, const char* key, int64_t layers);
// Reads the keys of Qwen's expert models: every decoder_sparse_step-th layer has experts unless
// mlp_only_layers lists it.
std::vector<bool> parse_sparse_layers(const ConfigReader& reader, int64_t layers);
void print_sparse_layers(const std::vector<bool>& sparse, Json& object);
// Returns flags that are true for the layers from `dense` on, which have experts.
std::vector<bool> sparse_after(int64_t dense, int64_t layers);
Json print_layer_flags(const std::vector<bool>& flags); // [0, 1, 1]
// Returns the names of Qwen's expert models.
TensorNames expert_names();

} // namespace dllm::model

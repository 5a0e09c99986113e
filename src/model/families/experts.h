#pragma once
// What configs of families with experts share.

#include "model/families/transformer.h"

#include <vector>

namespace dllm::model {

// A list of `layers` numbers, 0: the layer is dense; fails naming the key.
std::vector<bool> parse_layer_flags(const ConfigReader& reader, const char* key, int64_t layers);
// Layers from `dense` on have experts.
std::vector<bool> sparse_after(int64_t dense, int64_t layers);
Json print_layer_flags(const std::vector<bool>& flags); // [0, 1, 1]
// Names of the kind Qwen's expert models have.
TensorNames expert_names();

} // namespace dllm::model

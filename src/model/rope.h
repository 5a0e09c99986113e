#pragma once
// Rotary frequencies, with the scalings of config.json.

#include "model/config.h"
#include "model/config_reader.h"
#include "tensor/tensor.h"

namespace dllm::model {

struct RopeTable {
  Tensor inv_freq;     // f32(rotary / 2)
  float amplitude = 1; // of cos and sin
};

// seq: length of the rows, for "dynamic" (Hugging Face's NTK rule looks at the longest position).
RopeTable rope_table(const ModelConfig& config, int64_t seq);
int64_t rotary_size(const ModelConfig& config); // dims of a head that turn

// "rope_theta", "rope_scaling", "partial_rotary_factor", or the 5.x framework's "rope_parameters".
RopeConfig parse_rope(const ConfigReader& reader);
void print_rope(const ModelConfig& config, Json& object);

} // namespace dllm::model

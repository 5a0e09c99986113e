#pragma once
// Writes a model as bitsandbytes and transformers do: the matrices of layers in 4 bits, and all
// other tensors in the float types of the input.

#include "ckpt/safetensors/safetensors.h"
#include "model/files/quantize_tensors.h"

#include <memory>
#include <string>

namespace dllm::model {

// Writes the weights. has_codes: scales are stored in 8 bits too (double quantization).
void write_bits4_folder(const std::string& folder,
                        const std::shared_ptr<const WeightSource>& weights,
                        const ModelConfig& config, bool has_codes, Quantizer& work);
// Returns "quantization_config" of config.json.
Json bits4_config(const WeightFormat& format, bool has_codes);

} // namespace dllm::model

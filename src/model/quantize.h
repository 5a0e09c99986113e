#pragma once
// A model file in another weight format, tensor by tensor: no more than one tensor is in memory.

#include "base/json.h"
#include "base/options.h"
#include "base/task.h"

#include <string>

namespace dllm::model {

const Schema& quantize_schema(); // "quantize": format overwrite

// from: a model folder, a run, a checkpoint or a .gguf file. to: a .gguf file, or a folder of safetensors for formats
// of floats. Either appears whole or not at all. Returns {tensors, bytes_before, bytes_after, kinds: [{name, format,
// tensors, bytes_before, bytes_after, error}], notes: [text]}; error: the largest |stored - wanted| over the largest
// |wanted| of a block.
Json quantize_model(const std::string& from, const std::string& to, const Options& options,
                    Task* task = nullptr);

} // namespace dllm::model

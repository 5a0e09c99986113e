#pragma once
// Writes a model file in another weight format. It works tensor by tensor, and at most one tensor
// is in memory.

#include "base/json.h"
#include "base/options.h"
#include "base/task.h"

#include <string>

namespace dllm::model {

const Schema& quantize_schema(); // "quantize": format overwrite

// Writes the model at `from` to `to`. `from` is a model folder, a run, a checkpoint or a .gguf
// file. `to` is a .gguf file, or a folder of safetensors for formats of floats. The output appears
// complete or not at all.
// Returns {tensors, bytes_before, bytes_after, kinds: [{name, format, tensors, bytes_before,
// bytes_after, error}], notes: [text]}. The error of a block is the largest |stored - wanted|
// divided by the largest |wanted|.
Json quantize_model(const std::string& from, const std::string& to, const Options& options,
                    Task* task = nullptr);

} // namespace dllm::model

#pragma once
// Explains how to compute a model's logits with transformers, whose class for the family is causal.

#include "model/config.h"

#include <string>

namespace dllm::model {

// Returns a text that names the model's attention and shift, with lines of Python that compute its
// logits. Returns an empty text when the class of transformers computes the same logits. `path` is
// the saved folder. REQUIRES: transformers has a class for the family.
std::string export_note(const ModelConfig& config, const std::string& path);

} // namespace dllm::model

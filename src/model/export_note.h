#pragma once
// A folder for transformers whose class computes causally, of a model that does not.

#include "model/config.h"

#include <string>

namespace dllm::model {

// What attention and shift the model has and its class has not, with lines of Python that compute its logits; empty: the
// class computes what the model does. path: of the folder. REQUIRES: transformers has a class for the family.
std::string export_note(const ModelConfig& config, const std::string& path);

} // namespace dllm::model

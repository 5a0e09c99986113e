#pragma once
// What Gemma 2 and Gemma 3 share: norms around every block that multiply by 1 + weight, scaled
// embeddings, layers with a sliding window between layers without.

#include "model/families/transformer.h"

namespace dllm::model {

// pattern: where the file does not list its layers, every pattern-th one sees everything.
void parse_gemma_keys(const ConfigReader& reader, ModelConfig& config, int64_t pattern);
void print_gemma_keys(const ModelConfig& config, Json& object);
std::vector<ParamSpec> gemma_params(const ModelConfig& config);
// A cap of 0 is written as null. Absent: `otherwise`; null: none.
double parse_softcap(const ConfigReader& reader, const char* key, double otherwise);
Json print_softcap(double cap);

} // namespace dllm::model

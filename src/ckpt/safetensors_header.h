#pragma once
// The JSON header of a safetensors file, read without building a JSON tree and before anything is
// allocated for it.

#include "ckpt/safetensors.h"

namespace dllm::ckpt {

// Size in bytes of one element of a type word, 0 for words we do not know.
int64_t safetensors_type_size(std::string_view type);
std::optional<DType> safetensors_dtype(std::string_view type);
const char* safetensors_type(DType dtype);

// Fills the tables; begin and end are counted from the start of the data. Fails with data_loss.
void parse_safetensors_header(std::string_view json, const std::string& file, TensorTable* tensors,
                              Metadata* metadata);

} // namespace dllm::ckpt

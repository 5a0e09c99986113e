#pragma once
// The ways in which known families cut text, by name, as parts of a tokenizer.json.

#include "text/json_reader.h"

#include <string>
#include <vector>

namespace dllm::text {

// Returns the "pre_tokenizer" part of a tokenizer.json for a scheme of pre_tokenizer_schemes().
// Schemes are the ways in which known families cut text, by the names of GGUF files. Fails with
// not_found naming the nearest name.
TreeJson pre_tokenizer_scheme(const std::string& name);
const std::vector<std::string>& pre_tokenizer_schemes();

TreeJson byte_level_component(bool use_regex);

} // namespace dllm::text

#pragma once
// How well-known families cut text into words, by the names that GGUF files use.

#include "text/json_reader.h"

#include <string>
#include <vector>

namespace dllm::text {

// gpt2 (gpt-2), smollm, llama-bpe (llama3), qwen2, default: the "pre_tokenizer" component of a
// tokenizer.json. Fails with not_found and the nearest name.
TreeJson pre_tokenizer_scheme(const std::string& name);
const std::vector<std::string>& pre_tokenizer_schemes();

TreeJson byte_level_component(bool use_regex);

} // namespace dllm::text

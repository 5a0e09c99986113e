#pragma once
// Makes the template that adds bos before and eos after a text. Files request it with a flag:
// add_bos_token and add_eos_token of tokenizer_config.json, tokenizer.ggml.add_bos_token of GGUF.

#include "text/json_reader.h"
#include "text/tokenizer/parts.h"

#include <string>

namespace dllm::text {

// Returns the post-processor that adds bos before and eos after a text; "" adds no token. Returns
// JSON null when both are "".
TreeJson template_around(const std::string& bos, const std::string& eos);
// Returns the text of a token in tokenizer_config.json, which is a string or an object with
// "content"; "" without a token.
std::string config_token(const TreeJson* value);

// Applies add_bos_token and add_eos_token of tokenizer_config.json, unless the post-processor of
// tokenizer.json adds tokens: it has priority, as in the tokenizers library. Ignores a token that
// is not in the vocabulary.
void read_template_flags(const TreeJson& config, const std::string& where, TokenizerParts& parts);

} // namespace dllm::text

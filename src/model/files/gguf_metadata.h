#pragma once
// Writes the metadata of a GGUF file: the config of a model, as config_from_gguf reads it, and the
// tokenizer of its folder.

#include "ckpt/gguf/gguf_writer.h"
#include "model/config.h"
#include "text/tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// Writes the config. Fails with unimplemented for a family or a setting that no architecture of
// GGUF has.
void put_gguf_config(const ModelConfig& config, ckpt::GgufMetadata& to);
// Returns the content of the tensor rope_freqs.weight: the divisor of every angle, as Llama 3.1 and
// later have them. Returns an undefined tensor when the model has no divisors.
Tensor rope_divisors(const ModelConfig& config);
// Writes a byte-level BPE tokenizer and returns true. `settings` is the text of
// tokenizer_config.json, or "" when there is none. For other tokenizers it writes nothing, returns
// false and puts the reason into `why`.
bool put_gguf_tokenizer(const text::Tokenizer& tokenizer, std::string_view settings,
                        const ModelConfig& config, ckpt::GgufMetadata& to, std::string* why);

} // namespace dllm::model

#pragma once
// The metadata of a GGUF file for a model: the inverse of config_from_gguf, and the tokenizer of its folder.

#include "ckpt/gguf_writer.h"
#include "model/config.h"
#include "text/tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// Fails with unimplemented for a family, or a setting, that no architecture of GGUF has.
void put_gguf_config(const ModelConfig& config, ckpt::GgufMetadata& to);
// What the tensor rope_freqs.weight holds: the divisor of every angle, as Llama 3.1 and later have them. Undefined when
// there are none.
Tensor rope_divisors(const ModelConfig& config);
// A byte-level BPE tokenizer; settings: the text of tokenizer_config.json, "" when there is none. False, and the reason in
// `why`, for other tokenizers, which are left out.
bool put_gguf_tokenizer(const text::Tokenizer& tokenizer, std::string_view settings,
                        const ModelConfig& config, ckpt::GgufMetadata& to, std::string* why);

} // namespace dllm::model

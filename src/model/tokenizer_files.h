#pragma once
// The tokenizer's files that every save of a model writes.

#include "base/input_file.h"
#include "model/model.h"
#include "text/tokenizer.h"

#include "ckpt/gguf.h"

namespace dllm::model {

// Replaces tokenizer.json. Fails with invalid_argument for more tokens than the model's vocabulary has rows.
void set_tokenizer(Model& model, const text::Tokenizer& tokenizer);

// The same for the tokenizer inside a .gguf file. A model whose tokenizer cannot be used still loads: the reason is
// logged, and loading the tokenizer alone fails with the same message.
void set_gguf_tokenizer(Model& model, const Source& source);

// wanted: option mask_token, a token's text or id; "": the config's, else a token with a usual name
// in the tokenizer files or the GGUF vocabulary (may be null). Fails with not_found for a text that
// is no token.
void resolve_mask_token(Model& model, const std::string& wanted, const ckpt::GgufFile* gguf);

} // namespace dllm::model
